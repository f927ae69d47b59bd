"""What the autoscaler's three components serve beside their work: metrics, health and explanations, over HTTP."""
