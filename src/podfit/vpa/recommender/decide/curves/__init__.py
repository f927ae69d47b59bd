"""Usage over time, for policies: what each container used in every five minutes of the last days. No clock, no I/O."""
