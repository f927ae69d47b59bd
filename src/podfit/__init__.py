"""podfit fits pods to their load, in place."""

__version__ = "0.1.0"
