"""The commands that start and stop podfit's components."""
