"""Representations of objects (JSON, YAML, metadata only), content negotiation, and the selection of lists."""
