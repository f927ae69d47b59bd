"""Where samples come from: metrics, history, the cluster's objects."""
