"""Subresources that are more than a view of the object: scale, binding, eviction, tokens, and those served by nodes."""
