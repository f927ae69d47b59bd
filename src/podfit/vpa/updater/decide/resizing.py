"""Where a pod's resize stands, read from its conditions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from podfit.api.resize_states import PROPOSED
from podfit.api.resize_verdicts import DEFERRED, INFEASIBLE, PENDING, is_outdated
from podfit.vpa.model.pods import condition

Object = Mapping[str, Any]

IN_PROGRESS = "PodResizeInProgress"


class ResizeStatus(Enum):
    NONE = "ResizeNone"
    DEFERRED = "ResizeDeferred"
    INFEASIBLE = "ResizeInfeasible"
    IN_PROGRESS = "ResizeInProgress"
    ERROR = "ResizeError"
    UNKNOWN = "ResizeUnknown"


def resize_status(pod: Object) -> ResizeStatus:
    """A pending resize outranks one in progress. What a newer spec made outdated still waits for a verdict."""
    if is_proposed(pod):
        return ResizeStatus.DEFERRED
    if not is_resizing(pod):
        return ResizeStatus.NONE
    pending = condition(pod, PENDING)
    if pending is not None:
        if is_outdated(pod, pending):
            return ResizeStatus.DEFERRED
        known = {DEFERRED: ResizeStatus.DEFERRED, INFEASIBLE: ResizeStatus.INFEASIBLE}
        return known.get(pending.get("reason") or "", ResizeStatus.UNKNOWN)
    progress = condition(pod, IN_PROGRESS) or {}
    if not progress.get("reason") and not progress.get("message"):
        return ResizeStatus.IN_PROGRESS
    return ResizeStatus.ERROR if progress.get("reason") == "Error" else ResizeStatus.UNKNOWN


def is_proposed(pod: Object) -> bool:
    return (pod.get("status") or {}).get("resize") == PROPOSED


def is_resizing(pod: Object) -> bool:
    """The first resize condition decides, whichever it is. An older server says of one that no node has looked at yet
    that it is proposed."""
    if is_proposed(pod):
        return True
    for found in (pod.get("status") or {}).get("conditions") or ():
        if found.get("type") in (PENDING, IN_PROGRESS):
            return bool(found.get("status") == "True")
    return False
