"""What `podfit install` does: manifests, the checks before them, and the wait after them."""
