"""Pods that must not start before an autoscaler knows their size: the annotation that asks for it, and the gate."""

from __future__ import annotations

REQUIRES = "podfit.dev/requires-vpa"
"""Annotation on a pod: "true" holds it back until an autoscaler with a recommendation controls it."""
GATE = "podfit.dev/requires-vpa"
"""The scheduling gate that holds it."""
