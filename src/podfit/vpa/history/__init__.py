"""Sources of history: usage and out-of-memory events of the last days."""
