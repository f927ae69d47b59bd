"""Representations of objects: JSON, YAML, metadata only; and the selection of a list."""
