"""A report on the workloads of a cluster: what they request, what they use, what would fit. It installs nothing."""
