"""A revisioned key-value store with watches, in memory, in SQLite or in etcd. Only the API server opens it."""
