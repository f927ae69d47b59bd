"""Desired → Allocated: who gets what of the node."""
