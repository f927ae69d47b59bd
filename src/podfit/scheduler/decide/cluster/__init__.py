"""The cluster as the scheduler sees it: arrays of nodes, kept current."""
