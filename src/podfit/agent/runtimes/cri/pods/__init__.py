"""Sandboxes and containers of a CRI runtime: created, stopped, moved and removed."""
