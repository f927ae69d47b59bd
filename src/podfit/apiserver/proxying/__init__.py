"""Connections that the API server proxies to nodes, pods and services."""
