"""Answers in protobuf: lists and watches of built-in kinds, from the JSON they are stored as."""
