"""A report on the workloads of a cluster, for `podfit recommend`: requests, usage, and sizes that would fit. It
installs nothing."""
