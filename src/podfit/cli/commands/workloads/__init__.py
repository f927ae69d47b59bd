"""Commands for pods and workloads."""
