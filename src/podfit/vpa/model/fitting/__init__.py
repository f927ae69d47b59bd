"""Fits a recommendation to limits, limit ranges, policies and nodes."""
