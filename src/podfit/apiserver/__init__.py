"""The API server: the Kubernetes API over HTTPS."""
