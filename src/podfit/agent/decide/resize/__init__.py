"""Decisions between the four states of a pod's size."""
