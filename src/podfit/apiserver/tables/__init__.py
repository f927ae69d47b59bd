"""Renders objects as table rows for `kubectl get`, with the columns and cells that each kind has in Kubernetes."""
