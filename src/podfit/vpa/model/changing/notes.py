"""The annotation that says how a new pod was made to fit."""

from __future__ import annotations

FITTED = "podfit.dev/fitted"
"""On a pod: what it got less than recommended, and why."""
