"""A report on the workloads of a cluster: requests, usage, and sizes that would fit. It installs nothing."""
