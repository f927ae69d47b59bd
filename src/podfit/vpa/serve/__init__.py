"""HTTP servers of the autoscaler's three components: metrics, health and explanations."""
