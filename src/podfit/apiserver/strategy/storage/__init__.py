"""Strategies of storage.k8s.io: classes, CSI drivers and what they report, attachments."""
