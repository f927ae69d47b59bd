"""The workloads of a cluster and the pods that belong, or belonged, to them."""
