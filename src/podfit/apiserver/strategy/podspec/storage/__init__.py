"""Volumes, claims and mounts of a pod: defaults and validation."""
