"""Properties of a pod that workload controllers need: readiness, availability, order of deletion. Pure."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.controllers.owners import same_fields
from podfit.kit.clock import parse_rfc3339

FINISHED = ("Succeeded", "Failed")


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def is_deleting(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_active(pod: Object) -> bool:
    return not is_deleting(pod) and phase(pod) not in FINISHED


def condition(obj: Object, type: str) -> Object | None:
    return next(
        (condition for condition in (obj.get("status") or {}).get("conditions") or [] if condition["type"] == type),
        None,
    )


def is_ready(pod: Object) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def available_in(pod: Object, min_ready_s: int, now: float) -> float | None:
    """Seconds until the pod counts as available: 0 if it does, None while it is not ready."""
    ready = condition(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return None
    if not min_ready_s:
        return 0.0
    since = parse_rfc3339(ready["lastTransitionTime"]) if ready.get("lastTransitionTime") else now
    return max(0.0, since + min_ready_s - now)


def counts_the_same(before: Object, after: Object) -> bool:
    """Whether both states count the same in a set of pods: owner, activity, readiness and since when."""
    if not same_fields(before, after, _COUNTED):
        return False
    if before.get("status") is after.get("status"):
        return True
    return phase(before) == phase(after) and _ready_since(before) == _ready_since(after)


_COUNTED = ("uid", "labels", "ownerReferences", "deletionTimestamp")


def _ready_since(pod: Object) -> tuple[object, object] | None:
    ready = condition(pod, "Ready")
    return None if ready is None else (ready["status"], ready.get("lastTransitionTime"))


def restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)


def deletion_rank(pod: Object, neighbours: int, now: float) -> tuple[object, ...]:
    """The order of deletion: unbound, pending, not ready, cheapest, most crowded node, shortest ready, most restarts,
    youngest."""
    ready = condition(pod, "Ready")
    since = parse_rfc3339(ready["lastTransitionTime"]) if ready and ready.get("lastTransitionTime") else now
    cost = (pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    try:
        price = int(cost)
    except ValueError:
        price = 0
    born = pod["metadata"].get("creationTimestamp") or ""
    return (
        bool((pod.get("spec") or {}).get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
        is_ready(pod),
        price,
        -neighbours,
        -since if is_ready(pod) else 0,
        -restarts(pod),
        _newest_first(born),
    )


def _newest_first(text: str) -> float:
    return -parse_rfc3339(text) if text else 0.0


def set_condition(conditions: list[Object], new: Object) -> list[Object]:
    """The conditions with `new` replacing the one of its type; keeps the transition time if the status is the same."""
    kept = []
    for old in conditions:
        if old["type"] == new["type"]:
            if old["status"] == new["status"] and "lastTransitionTime" in old:
                new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
        else:
            kept.append(old)
    return [*kept, new]
