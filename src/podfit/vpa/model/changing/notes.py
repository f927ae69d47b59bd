"""The annotation that records how a new pod was made to fit."""

from __future__ import annotations

FITTED = "podfit.dev/fitted"
"""On a pod: the reductions below the recommendation, and their reasons."""
