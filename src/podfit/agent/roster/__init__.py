"""Tracks which pods belong to this node: those bound to it in the API, and static pods from its own folder."""
