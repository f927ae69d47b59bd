"""Tasks, worker threads and fair scheduling."""
