"""Exec, attach and port-forward in Kubernetes' protocols: SPDY and WebSocket, and their endpoints."""
