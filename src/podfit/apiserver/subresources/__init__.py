"""Subresources that are more than a view of the object: scale, binding, eviction, tokens, and what nodes answer."""
