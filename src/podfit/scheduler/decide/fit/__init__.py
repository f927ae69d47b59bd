"""Decides which nodes fit a pod and how they are ranked, and explains why others do not fit."""
