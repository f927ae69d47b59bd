"""Evidence beyond samples of a container's own usage: out-of-memory kills, starvation, similar containers."""
