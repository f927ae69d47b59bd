"""The CPU manager: which CPUs each container of this node may run on."""
