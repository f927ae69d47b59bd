"""The OpenAPI schemas of built-in types and of custom resources."""
