"""Compares usage and recommendations with requests, for `podfit top` and related commands."""
