"""The two conditions of a resize, their reasons, and how they are read from a pod's status. Pure.

`PodResizePending` reports that Desired differs from Allocated, `PodResizeInProgress` that Allocated differs from
Actual. Both are absent if there is no difference. The agent writes them (`agent/decide`); other components read them
through `progress`, which also detects conditions that a newer spec has outdated.
"""

from __future__ import annotations

from podfit.api.objects import ObjectView

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
CONDITIONS = frozenset((PENDING, IN_PROGRESS))
DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
"""Reasons of PodResizePending: no room now, which is retried; impossible on this node, which is not."""
ERROR = "Error"
"""The reason of PodResizeInProgress while a step fails and is retried. Otherwise the condition has no reason."""
PROPOSED, IN_PROGRESS_WORD = "Proposed", "InProgress"
"""Values of `status.resize` on servers before 1.33, in addition to the reasons of PodResizePending: the node has not
decided on the resize yet, or has granted it."""


def listed(pod: ObjectView, kind: str) -> ObjectView | None:
    """The condition, whatever its status."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            return condition  # type: ignore[no-any-return]
    return None


def reported(pod: ObjectView, kind: str) -> ObjectView | None:
    """The condition, if it is True."""
    condition = listed(pod, kind)
    return condition if condition is not None and condition.get("status") == "True" else None


def is_outdated(pod: ObjectView, condition: ObjectView) -> bool:
    """Whether the spec has changed since. A condition without a generation counts as current: otherwise nodes that
    report none would always be ignored."""
    observed = condition.get("observedGeneration") or 0
    return bool(0 < observed < ((pod.get("metadata") or {}).get("generation") or 0))
