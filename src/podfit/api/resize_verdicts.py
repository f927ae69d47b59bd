"""The node's verdict on a pending resize, read from the condition PodResizePending. Pure.

A verdict is about the spec that the node judged. A resize that arrives later makes it outdated until the node has
judged again, so a verdict counts only for the generation it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PENDING = "PodResizePending"
DEFERRED, INFEASIBLE = "Deferred", "Infeasible"

Object = Mapping[str, Any]


def resize_verdict(pod: Object) -> Object | None:
    """The condition PodResizePending, if it is about the pod's present spec."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == PENDING:
            return None if is_outdated(pod, condition) else condition
    return None


def is_outdated(pod: Object, condition: Object) -> bool:
    """Whether the spec has changed since. Nodes that do not report a generation are taken to be up to date."""
    observed = condition.get("observedGeneration") or 0
    return bool(0 < observed < ((pod.get("metadata") or {}).get("generation") or 0))


def is_resize_infeasible(pod: Object) -> bool:
    """Whether the node can never grant what the spec asks for: then nobody needs to reserve it."""
    verdict = resize_verdict(pod)
    return verdict is not None and verdict.get("reason") == INFEASIBLE
