"""Which nodes fit a pod, why the others do not, and how they are ranked."""
