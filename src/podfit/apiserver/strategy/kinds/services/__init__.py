"""The strategy of Services: defaults, validation, and what updates may change."""
