"""Starts and stops containers, and records how they ended."""
