"""The workloads of a cluster and their current and former pods."""
