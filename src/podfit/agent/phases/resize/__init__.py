"""Phases of a resize: Allocated → Actuated (restart, actuate), Actuated → Actual (settle)."""
