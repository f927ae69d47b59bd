"""Measures the working set of a container: its memory.high is lowered step by step while nothing stalls."""
