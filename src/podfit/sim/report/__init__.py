"""The results of a run, counted step by step."""
