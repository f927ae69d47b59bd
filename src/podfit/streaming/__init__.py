"""Exec, attach and port-forward as Kubernetes carries them: SPDY and WebSocket, and the streams they end in."""
