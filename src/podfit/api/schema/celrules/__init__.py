"""Validation rules in CEL inside schemas of custom resources."""
