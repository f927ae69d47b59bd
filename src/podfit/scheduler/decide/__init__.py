"""The scheduler's decisions, without clock or I/O: a model of the cluster in, verdicts out."""
