"""Strategies of resource.k8s.io: claims of devices, their classes, and the slices that drivers publish."""
