"""Records, correlates and writes Events, for all components."""
