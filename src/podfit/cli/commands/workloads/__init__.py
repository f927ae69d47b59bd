"""The commands about pods and workloads."""
