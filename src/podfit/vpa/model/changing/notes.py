"""The annotation that records how a new pod was made to fit."""

from __future__ import annotations

FITTED = "podfit.dev/fitted"
"""The annotation of a pod that lists the reductions below the recommendation, with reasons."""
