"""Shared by the commands about resizes: planning a resize, its stages, and following it to its end."""
