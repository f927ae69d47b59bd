"""A recommendation made to fit: limits, limit ranges, policies, nodes."""
