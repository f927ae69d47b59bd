"""Evidence beyond samples: out-of-memory kills, starvation, similar containers."""
