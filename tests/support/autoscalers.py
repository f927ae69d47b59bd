"""Pods and VerticalPodAutoscalers for tests of decisions: plain objects with the fields that decisions read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podfit.api.objects import Object

START = "2026-01-01T00:00:00Z"
START_S = 1767225600.0
"""START in seconds since the epoch."""
DEFERRED: Object = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "lastTransitionTime": START}
INFEASIBLE: Object = {**DEFERRED, "reason": "Infeasible"}
IN_PROGRESS: Object = {"type": "PodResizeInProgress", "status": "True", "lastTransitionTime": START}
READY: Object = {"type": "Ready", "status": "True", "lastTransitionTime": START}


def container(name: str = "app", requests: Any = None, limits: Any = None, **more: Any) -> Object:
    resources = {key: dict(value) for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"name": name, "resources": resources, **more}


def pod(
    name: str = "p",
    *containers: Object,
    conditions: Sequence[Object] = (),
    phase: str = "Running",
    owner: str = "web-1",
    statuses: Sequence[Object] = (),
    **meta: Any,
) -> Object:
    """A pod of the ReplicaSet `owner`, or without a controller if that is empty. It has been running since START."""
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": True}] if owner else []
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}", "ownerReferences": owners, **meta},
        "spec": {"containers": list(containers) or [container(requests={"cpu": "100m"})]},
        "status": {
            "phase": phase,
            "startTime": START,
            "conditions": list(conditions),
            "containerStatuses": list(statuses),
        },
    }


def recommended(name: str = "app", target: Any = None, lower: Any = None, upper: Any = None) -> Object:
    found = {"containerName": name, "target": target or {"cpu": "1"}}
    return {**found, **{key: it for key, it in (("lowerBound", lower), ("upperBound", upper)) if it}}


def vpa(*entries: Object, mode: str = "InPlaceOrRecreate", name: str = "v", status: Any = None, **spec: Any) -> Object:
    """An autoscaler of the ReplicaSet web-1 that recommends `entries`."""
    update = {"updateMode": mode, **spec.pop("updatePolicy", {})}
    return {
        "metadata": {"namespace": "ns", "name": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1"},
            "updatePolicy": update,
            **spec,
        },
        "status": {"recommendation": {"containerRecommendations": list(entries)}, **(status or {})},
    }


def oom(name: str = "app", lived_s: int = 10) -> Object:
    """The status of a container that was OOM-killed this long after START."""
    ended = {"reason": "OOMKilled", "exitCode": 137, "startedAt": START, "finishedAt": at(lived_s)}
    return {"name": name, "lastState": {"terminated": ended}}


def at(seconds: int) -> str:
    """A time after START, on the same day."""
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"
