"""Autoscaler objects and pods as the autoscaler reads them."""
