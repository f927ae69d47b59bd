"""Decisions about the node: pressure, eviction, images, and which pods may run on it."""
