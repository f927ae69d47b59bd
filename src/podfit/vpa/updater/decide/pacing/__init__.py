"""How fast pods may change."""
