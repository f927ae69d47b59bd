"""VM pods that move to another node: what this node does for those that leave it, and for those that come."""
