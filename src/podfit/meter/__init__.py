"""Usage: reads what nodes measure and serves it as metrics.k8s.io."""
