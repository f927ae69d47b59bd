"""The cluster as the autoscaler's components observe it: caches, owners, targets, free capacity."""
