"""Measures a container's working set: lowers its memory.high step by step until the container begins to stall."""
