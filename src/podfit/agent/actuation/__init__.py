"""Allocated → Actuated: applies allocated sizes through the runtime and records what was applied."""
