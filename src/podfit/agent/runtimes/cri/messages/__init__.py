"""Converts between the agent's configuration and CRI messages."""
