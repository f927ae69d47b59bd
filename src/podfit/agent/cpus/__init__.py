"""The CPU manager: decides which CPUs each container of this node may run on, and applies that."""
