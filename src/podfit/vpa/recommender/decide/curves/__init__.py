"""Usage over time, for policies: each container's usage in five-minute steps over the last days. No clock, no I/O."""
