"""Strategies of networking.k8s.io and discovery.k8s.io: ingresses, policies, addresses of services, endpoint slices."""
