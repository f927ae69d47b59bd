"""Policies: pure functions from what was used to what should have been in force, one file each."""
