"""Admission policies: rules in CEL, bound to resources, that the API server evaluates itself."""
