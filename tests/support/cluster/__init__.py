"""Clusters, or parts of one, in one process, and helpers that wait for a state by watching."""
