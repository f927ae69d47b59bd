"""Policies: pure functions from past usage to sizes, one file each."""
