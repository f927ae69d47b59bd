"""The life of containers: starts, stops, probes, hooks, last words, logs, and pods that come from files."""
