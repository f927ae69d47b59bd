"""Responses in protobuf: lists and watches of built-in kinds, from their stored JSON."""
