"""Reports at once that a container is near its memory limit, so that it can get more before it is killed."""
