"""Language runtimes that size their own heap: what they take, read from a container's command and environment."""
