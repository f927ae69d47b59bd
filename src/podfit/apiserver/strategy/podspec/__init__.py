"""Defaults and validation of the spec of a pod, in a pod or in a template, with one module per part."""
