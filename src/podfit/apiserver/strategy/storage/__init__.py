"""Strategies of storage.k8s.io: classes, CSI drivers and their reports, attachments."""
