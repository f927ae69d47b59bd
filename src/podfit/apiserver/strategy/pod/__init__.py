"""Pods: one kind and the endpoints that change it."""
