"""What the autoscaler's three components see of a cluster: caches, owners, targets."""
