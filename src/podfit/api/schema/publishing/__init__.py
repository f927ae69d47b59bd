"""The OpenAPI documents of a server."""
