"""Receives requests and sends responses: sockets, TLS, fair scheduling, long responses."""
