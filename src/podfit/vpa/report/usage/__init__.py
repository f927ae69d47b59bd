"""Usage of containers: where the report reads it from, and how it collects it."""
