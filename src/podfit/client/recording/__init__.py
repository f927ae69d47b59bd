"""Events: recorded, correlated and written."""
