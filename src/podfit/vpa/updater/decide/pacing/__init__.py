"""Limits how fast pods change."""
