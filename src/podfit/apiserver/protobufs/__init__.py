"""Encodes responses in protobuf: objects, lists and watches of built-in kinds, from their stored JSON."""
