"""Addresses and ports that the API server allocates to Services."""
