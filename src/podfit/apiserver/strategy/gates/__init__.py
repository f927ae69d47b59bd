"""Drops fields whose feature gates are off by default in Kubernetes 1.36."""
