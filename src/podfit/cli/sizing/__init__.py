"""Usage and recommendations beside requests."""
