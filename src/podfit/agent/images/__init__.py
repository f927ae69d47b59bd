"""Images of this node: pulled, recorded and deleted."""
