"""What the scheduler decides, without clock or I/O: a model of the cluster in, verdicts out."""
