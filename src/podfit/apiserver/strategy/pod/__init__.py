"""Strategies of pods: one kind, and the endpoints that change it."""
