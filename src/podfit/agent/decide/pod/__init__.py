"""Decisions about one pod: the containers to start next, and the contents of its status."""
