"""Tasks, threads beside the event loop, and fair turns."""
