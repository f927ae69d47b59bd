"""A runtime in memory, for tests and for simulated nodes."""
