"""Schemas of custom resources: checks the schemas of definitions, and validates objects against them."""
