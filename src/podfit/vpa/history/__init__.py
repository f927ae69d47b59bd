"""Where the past comes from: usage and out-of-memory events of the last days."""
