"""Finds out how much memory a container works with: less is allowed step by step while nothing stalls."""
