"""Checked expressions as programs, and the values that they compute."""
