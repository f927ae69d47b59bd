"""Strategies of flowcontrol.apiserver.k8s.io: the assignment of requests to priority levels, and the levels' limits."""
