"""Terminated containers that the runtime no longer knows, restored from the status in the API. Pure.

A runtime loses its state when it is wiped or the machine restarts. The status in the API still counts: a container that
terminated for good is not started again, nor is one that must not run twice and whose exit was missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.agent.decide.pod.lifecycle import Seen, restartable
from podfit.agent.runtimes.values import EXITED, ContainerState
from podfit.api.objects import Object
from podfit.kit.rfc3339 import parse_rfc3339

_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_UNKNOWN: Object = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located. It used to be Running",
}


def reported_end(pod: Mapping[str, Any], container: Object) -> ContainerState | None:
    """The container's termination as reported in the API, if it terminated for good; None if it may be started."""
    status = pod.get("status") or {}
    for field in _LISTS:
        for shown in status.get(field) or ():
            if shown["name"] == container["name"]:
                policy = pod["spec"].get("restartPolicy") or "Always"
                return _end(shown, container, "Never" if field == _LISTS[2] else policy)
    return None


def _end(shown: Object, container: Object, policy: str) -> ContainerState | None:
    state = shown.get("state") or {}
    ended = state.get("terminated")
    if ended is None and "running" in state:
        ended = {**_UNKNOWN, "startedAt": (state["running"] or {}).get("startedAt")}
    if ended is None:
        return None
    found = ContainerState(
        id=str(shown.get("containerID") or ended.get("containerID") or "").rpartition("//")[2],
        name=container["name"],
        attempt=int(shown.get("restartCount") or 0),
        state=EXITED,
        image=shown.get("image") or "",
        image_id=shown.get("imageID") or "",
        created_at=_time(ended.get("startedAt")),
        started_at=_time(ended.get("startedAt")),
        finished_at=_time(ended.get("finishedAt")),
        exit_code=int(ended.get("exitCode") or 0),
        reason=ended.get("reason") or "",
        message=ended.get("message") or "",
    )
    return None if restartable(container, Seen(container["name"], found), policy) else found


def _time(text: str | None) -> float:
    return parse_rfc3339(text) if text else 0.0
