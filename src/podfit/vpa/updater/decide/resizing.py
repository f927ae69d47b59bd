"""A pod's resize status in the terms of the Kubernetes updater, so that decisions can be compared with its own."""

from __future__ import annotations

from enum import Enum

from podfit.api.objects import ObjectView
from podfit.api.resize.conditions import CONDITIONS
from podfit.api.resize.progress import InProgress, Pending, progress
from podfit.api.resize.verdicts import Infeasible, Unknown


class ResizeStatus(Enum):
    NONE = "ResizeNone"
    DEFERRED = "ResizeDeferred"
    INFEASIBLE = "ResizeInfeasible"
    IN_PROGRESS = "ResizeInProgress"
    ERROR = "ResizeError"
    UNKNOWN = "ResizeUnknown"


def resize_status(pod: ObjectView) -> ResizeStatus:
    """The resize status. A resize that no condition reports (`since` is None) does not count for the updater. One that
    the node has not decided waits like a deferred one."""
    match progress(_as_upstream_reads(pod)):
        case Pending(since=None) | InProgress(since=None):
            return ResizeStatus.NONE
        case Pending(verdict=Infeasible()):
            return ResizeStatus.INFEASIBLE
        case Pending(verdict=Unknown()):
            return ResizeStatus.UNKNOWN
        case Pending():
            return ResizeStatus.DEFERRED
        case InProgress(reason="", error=""):
            return ResizeStatus.IN_PROGRESS
        case InProgress() as moving:
            return ResizeStatus.ERROR if moving.failing else ResizeStatus.UNKNOWN
    return ResizeStatus.NONE


def is_resizing(pod: ObjectView) -> bool:
    return resize_status(pod) is not ResizeStatus.NONE


def _as_upstream_reads(pod: ObjectView) -> ObjectView:
    """The pod with the conditions as upstream interprets them: the status of the first resize condition applies to
    both. Nodes only write True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    resizing = [condition for condition in conditions if condition.get("type") in CONDITIONS]
    if all(condition.get("status") == "True" for condition in resizing):
        return pod
    kept = [{**condition, "status": "True"} for condition in resizing] if resizing[0].get("status") == "True" else []
    return {**pod, "status": {**(pod.get("status") or {}), "conditions": kept}}
