"""Handlers of subresources with logic of their own: resize, migrate, scale, binding, eviction, tokens, reviews."""
