"""Decisions about one pod: which containers run next, and what its status says."""
