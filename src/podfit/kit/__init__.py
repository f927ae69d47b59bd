"""Utilities independent of Kubernetes: clocks, backoff, tasks, files, logs."""
