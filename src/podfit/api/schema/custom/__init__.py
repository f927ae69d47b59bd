"""Schemas of custom resources: which are accepted, and what they say about an object."""
