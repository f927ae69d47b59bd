"""Strategies of most built-in kinds, one module per area."""
