"""Servers that tests start: Prometheus, webhooks, nodes that misbehave."""
