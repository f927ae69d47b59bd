"""Measures usage of pods and containers, and serves it in the formats that clients read."""
