"""The steps of a write, used by verbs and subresources: body, defaults, managed fields, validation, store."""
