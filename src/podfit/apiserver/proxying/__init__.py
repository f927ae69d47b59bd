"""Connections that the API server passes on to nodes, pods and services."""
