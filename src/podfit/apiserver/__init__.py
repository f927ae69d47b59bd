"""The API server: Kubernetes on the wire."""
