"""Servers that tests start: Prometheus, webhooks, misbehaving nodes."""
