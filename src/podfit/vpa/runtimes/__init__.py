"""Language runtimes that size their own heap: determines heap sizes from a container's command and environment."""
