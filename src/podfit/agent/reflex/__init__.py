"""Says at once that a container is near its memory limit, so that it can be given more before it is killed."""
