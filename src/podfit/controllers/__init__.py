"""Controllers: level-triggered, idempotent, one folder each. They access the cluster only through the API."""
