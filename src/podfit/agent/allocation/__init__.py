"""Desired → Allocated: divides the node's resources among its pods."""
