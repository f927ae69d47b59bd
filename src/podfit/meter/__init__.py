"""Resource usage: scrapes it from the nodes and serves it as metrics.k8s.io."""
