"""A revisioned log of keys with watch. Only the API server opens it."""
