"""Pods in a container runtime that serves CRI: containerd, CRI-O, or podfit's own for virtual machines."""
