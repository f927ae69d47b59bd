"""The scheduler's model of the cluster: arrays of nodes, updated incrementally."""
