"""Decodes JSON, YAML and protobuf bodies to typed objects."""
