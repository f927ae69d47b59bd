"""Usage over time, the input of policies: each container's usage in five-minute steps over the last days. No clock, no
I/O."""
