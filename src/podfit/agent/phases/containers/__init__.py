"""Phases that start, probe, migrate and stop containers."""
