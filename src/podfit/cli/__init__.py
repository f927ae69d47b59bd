"""The command line: `podfit …`, also `kubectl podfit …`."""
