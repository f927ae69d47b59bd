"""Sources of samples: metrics, history, the cluster's objects."""
