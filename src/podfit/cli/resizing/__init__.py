"""Shared by the commands about resizes: plans, stages, following a resize to its end."""
