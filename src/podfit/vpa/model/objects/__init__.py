"""Parses autoscaler objects and pods for the autoscaler."""
