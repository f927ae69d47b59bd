"""The autoscaler components' view of a cluster: caches, owners, targets."""
