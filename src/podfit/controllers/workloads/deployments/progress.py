"""A Deployment's status: counts, and whether it is available and progressing. Pure."""

from __future__ import annotations

from enum import Enum

from podfit.api.objects import Object
from podfit.controllers.workloads.deployments.revisions import count, replicas_of
from podfit.controllers.workloads.deployments.rolling import bounds
from podfit.controllers.workloads.podstate import condition
from podfit.kit.clock import parse_rfc3339, rfc3339

_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
_PROGRESSING, _FAILURE = "Progressing", "ReplicaFailure"
_PAUSED, _TIMED_OUT, _COMPLETE = "DeploymentPaused", "ProgressDeadlineExceeded", "NewReplicaSetAvailable"
_NO_DEADLINE = 2**31 - 1


class Start(Enum):
    """Changes made by this pass over the Deployment."""

    NOTHING = 0
    MADE = 1
    """The ReplicaSet of a new template was created."""
    RESIZING = 2
    """The running ReplicaSet got other sizes."""


def deployment_status(
    deployment: Object, new: Object | None, sets: list[Object], now: float, updated: int, start: Start = Start.NOTHING
) -> tuple[Object, float | None]:
    """The status to write, and the time by which the rollout must have progressed (None: it is not waiting)."""
    counts = {
        field: sum(count(replica_set, field) for replica_set in sets)
        for field in ("replicas", "readyReplicas", "availableReplicas")
    }
    counts["updatedReplicas"] = updated
    counts["unavailableReplicas"] = max(0, sum(map(replicas_of, sets)) - counts["availableReplicas"])
    status: Object = {"observedGeneration": deployment["metadata"].get("generation", 0)}
    status.update({field: counts[field] for field in _COUNTS if counts[field]})
    status["terminatingReplicas"] = sum(count(replica_set, "terminatingReplicas") for replica_set in sets)
    collisions = (deployment.get("status") or {}).get("collisionCount")
    if collisions:
        status["collisionCount"] = collisions
    conditions = _Conditions(deployment, now)
    _begin(conditions, deployment, new, start)
    _availability(conditions, deployment, counts)
    deadline = _progress(conditions, deployment, new, counts, now)
    if not deployment["spec"].get("paused"):
        _failure(conditions, new, sets)
    if conditions.all:
        status["conditions"] = conditions.all
    return status, deadline


def not_made(deployment: Object, message: str, now: float) -> Object:
    """The status of a Deployment whose new ReplicaSet could not be created."""
    conditions = _Conditions(deployment, now)
    if _has_deadline(deployment):
        conditions.set(_PROGRESSING, "False", "ReplicaSetCreateError", message)
    return {**(deployment.get("status") or {}), "conditions": conditions.all}


def is_complete(deployment: Object) -> bool:
    """Whether all pods of the current template exist and are available, and there are no others, according to the
    status."""
    status = deployment.get("status") or {}
    counts = {field: int(status.get(field, 0)) for field in _COUNTS}
    current = int(status.get("observedGeneration", 0)) >= int(deployment["metadata"].get("generation", 0))
    return current and _complete(counts, replicas_of(deployment))


class _Conditions:
    def __init__(self, deployment: Object, now: float) -> None:
        self.now = rfc3339(now)
        self.all: list[Object] = [
            dict(condition) for condition in (deployment.get("status") or {}).get("conditions") or []
        ]

    def get(self, type: str) -> Object | None:
        return next((existing for existing in self.all if existing["type"] == type), None)

    def set(self, type: str, status: str, reason: str, message: str, *, touch: bool = False, at: str = "") -> None:
        """A condition with the same reason stays unchanged, message and times, unless it is to be touched."""
        before, at = self.get(type), at or self.now
        if before and not touch and (before["status"], before.get("reason")) == (status, reason):
            return
        new = {
            "type": type,
            "status": status,
            "lastUpdateTime": at,
            "lastTransitionTime": before["lastTransitionTime"] if before and before["status"] == status else at,
            "reason": reason,
            "message": message,
        }
        self.drop(type)
        self.all.append(new)

    def drop(self, type: str) -> None:
        self.all = [existing for existing in self.all if existing["type"] != type]


def _has_deadline(deployment: Object) -> bool:
    return int(deployment["spec"].get("progressDeadlineSeconds", 600)) != _NO_DEADLINE


def _begin(conditions: _Conditions, deployment: Object, new: Object | None, start: Start) -> None:
    """The progress before anything is counted."""
    if not _has_deadline(deployment):
        return
    reason = (conditions.get(_PROGRESSING) or {}).get("reason")
    if deployment["spec"].get("paused"):
        if reason != _TIMED_OUT:
            conditions.set(_PROGRESSING, "Unknown", _PAUSED, "Deployment is paused")
        return
    if reason == _PAUSED:
        conditions.set(_PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed")
    if new is None:
        return
    name = new["metadata"]["name"]
    if start is Start.MADE:
        conditions.set(_PROGRESSING, "True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    elif start is Start.RESIZING:
        _progresses(conditions, deployment, new)
    elif reason is None:
        conditions.set(_PROGRESSING, "True", "FoundNewReplicaSet", f'Found new replica set "{name}"')


def _progresses(conditions: _Conditions, deployment: Object, new: Object | None) -> None:
    message = f"{_what(deployment, new)} is progressing."
    conditions.set(_PROGRESSING, "True", "ReplicaSetUpdated", message, touch=True)


def _what(deployment: Object, new: Object | None) -> str:
    kind, obj = ("ReplicaSet", new) if new else ("Deployment", deployment)
    return f'{kind} "{obj["metadata"]["name"]}"'


def _availability(conditions: _Conditions, deployment: Object, counts: dict[str, int]) -> None:
    enough = counts["availableReplicas"] >= replicas_of(deployment) - bounds(deployment["spec"]).unavailable
    if enough:
        conditions.set("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        message = "Deployment does not have minimum availability."
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message)


def _failure(conditions: _Conditions, new: Object | None, sets: list[Object]) -> None:
    """A failure of the new set takes precedence over that of an old one."""
    found = (condition(replica_set, _FAILURE) for replica_set in [*([new] if new else []), *sets])
    failed = next((candidate for candidate in found if candidate), None)
    if failed:
        words = failed["status"], failed.get("reason", ""), failed.get("message", "")
        conditions.set(_FAILURE, *words, at=failed.get("lastTransitionTime") or "")
    else:
        conditions.drop(_FAILURE)


def _progress(
    conditions: _Conditions, deployment: Object, new: Object | None, counts: dict[str, int], now: float
) -> float | None:
    if deployment["spec"].get("paused"):
        return None
    if not _has_deadline(deployment):
        conditions.drop(_PROGRESSING)
        return None
    deadline_s = int(deployment["spec"].get("progressDeadlineSeconds", 600))
    before = conditions.get(_PROGRESSING) or {}
    done = before.get("reason") == _COMPLETE
    if done and counts["replicas"] == counts["updatedReplicas"]:
        # The rollout has ended: pods created, deleted or failing later are neither progress nor a lack of it.
        return None
    if _complete(counts, replicas_of(deployment)):
        conditions.set(_PROGRESSING, "True", _COMPLETE, f"{_what(deployment, new)} has successfully progressed.")
        return None
    if _moved(deployment, counts):
        _progresses(conditions, deployment, new)
        return now + deadline_s
    if not before or done or before.get("reason") == _TIMED_OUT:
        return None
    deadline = parse_rfc3339(before.get("lastUpdateTime") or before["lastTransitionTime"]) + deadline_s
    if now > deadline:
        conditions.set(_PROGRESSING, "False", _TIMED_OUT, f"{_what(deployment, new)} has timed out progressing.")
        return None
    return deadline


def _complete(counts: dict[str, int], wanted: int) -> bool:
    return all(counts[field] == wanted for field in ("updatedReplicas", "replicas", "availableReplicas"))


def _moved(deployment: Object, counts: dict[str, int]) -> bool:
    status = deployment.get("status") or {}
    old = {field: int(status.get(field, 0)) for field in _COUNTS}
    return (
        counts["updatedReplicas"] > old["updatedReplicas"]
        or counts["replicas"] - counts["updatedReplicas"] < old["replicas"] - old["updatedReplicas"]
        or counts["readyReplicas"] > old["readyReplicas"]
        or counts["availableReplicas"] > old["availableReplicas"]
    )
