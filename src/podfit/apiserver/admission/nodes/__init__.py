"""Admission plugins for nodes and for what nodes write."""
