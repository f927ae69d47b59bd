"""Controllers: level-triggered, idempotent, one folder each. They meet the rest only through the API."""
