"""Language runtimes that size their own heap: heap sizes from a container's command and environment."""
