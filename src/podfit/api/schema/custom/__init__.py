"""Schemas of custom resources: which are accepted, and validation of objects."""
