"""Usage of containers: its sources, and how it is collected."""
