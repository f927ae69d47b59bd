"""Sizing policies: pure functions from past usage to sizes, one in each file."""
