"""The path of a write: body, defaults, managed fields, validation, store."""
