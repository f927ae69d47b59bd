"""Writes pod status to the API."""
