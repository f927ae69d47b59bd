"""Strategies of flowcontrol.apiserver.k8s.io: which requests share a priority level, and what a level may use."""
