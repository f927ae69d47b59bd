"""Migration of VM pods to another node: this node's part for pods that leave and for pods that arrive."""
