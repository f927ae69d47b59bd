"""A revisioned key-value store with watch. Only the API server opens it."""
