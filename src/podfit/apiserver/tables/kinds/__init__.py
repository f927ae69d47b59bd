"""Columns and cells of the built-in kinds."""
