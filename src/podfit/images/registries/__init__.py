"""Registries: names, credentials, and pulling images from them."""
