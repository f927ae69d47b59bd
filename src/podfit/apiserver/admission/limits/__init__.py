"""Admission plugins for limit ranges and quotas."""
