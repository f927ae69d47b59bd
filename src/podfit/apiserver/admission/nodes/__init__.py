"""Admission plugins for nodes and for writes by nodes."""
