"""Reads the fields of autoscaler objects and pods."""
