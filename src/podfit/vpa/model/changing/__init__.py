"""Decides whether and how a pod may be changed."""
