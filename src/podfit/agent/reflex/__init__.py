"""Reports at once that a container is near its memory limit, so that the limit can be raised before the container is
killed."""
