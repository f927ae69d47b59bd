"""The annotation of pods that must not start before an autoscaler controls them, and the scheduling gate that holds
them."""

from __future__ import annotations

REQUIRES = "podfit.dev/requires-vpa"
"""Annotation on a pod: "true" holds it back until an autoscaler controls it."""
GATE = "podfit.dev/requires-vpa"
"""The scheduling gate for this."""
