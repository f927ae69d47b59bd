"""A Deployment's status: counts, and whether it is available and progressing. Pure."""

from __future__ import annotations

from podfit.api.status import Object
from podfit.controllers.workloads.podstate import condition
from podfit.controllers.workloads.revisions import count, replicas_of
from podfit.controllers.workloads.rolling import bounds
from podfit.kit.clock import parse_rfc3339, rfc3339

_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def deployment_status(
    deployment: Object, new: Object | None, sets: list[Object], now: float, updated: int
) -> tuple[Object, float | None]:
    """The status to write, and the time by which the roll-out must have progressed (None: it is not waiting)."""
    counts = {
        field: sum(count(one, field) for one in sets) for field in ("replicas", "readyReplicas", "availableReplicas")
    }
    counts["updatedReplicas"] = updated
    counts["unavailableReplicas"] = max(0, sum(map(replicas_of, sets)) - counts["availableReplicas"])
    status: Object = {"observedGeneration": deployment["metadata"].get("generation", 0)}
    status.update({field: counts[field] for field in _COUNTS if counts[field]})
    status["terminatingReplicas"] = sum(count(one, "terminatingReplicas") for one in sets)
    collisions = (deployment.get("status") or {}).get("collisionCount")
    if collisions:
        status["collisionCount"] = collisions
    conditions = _Conditions(deployment, now)
    _availability(conditions, deployment, counts)
    _failure(conditions, sets)
    deadline = _progress(conditions, deployment, new, counts, now)
    if conditions.all:
        status["conditions"] = conditions.all
    return status, deadline


class _Conditions:
    def __init__(self, deployment: Object, now: float) -> None:
        self.old = deployment
        self.now = rfc3339(now)
        self.all: list[Object] = [dict(one) for one in (deployment.get("status") or {}).get("conditions") or []]

    def set(self, type: str, status: str, reason: str, message: str, *, touch: bool = False) -> None:
        before = condition(self.old, type)
        made = (status, reason, message)
        if before and not touch and (before["status"], before.get("reason"), before.get("message")) == made:
            return
        changed = before["lastTransitionTime"] if before and before["status"] == status else self.now
        new = {
            "type": type,
            "status": status,
            "lastUpdateTime": self.now,
            "lastTransitionTime": changed,
            "reason": reason,
            "message": message,
        }
        self.all = [one for one in self.all if one["type"] != type] + [new]

    def drop(self, type: str) -> None:
        self.all = [one for one in self.all if one["type"] != type]


def _availability(conditions: _Conditions, deployment: Object, counts: dict[str, int]) -> None:
    enough = counts["availableReplicas"] >= replicas_of(deployment) - bounds(deployment["spec"]).unavailable
    if enough:
        conditions.set("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        message = "Deployment does not have minimum availability."
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message)


def _failure(conditions: _Conditions, sets: list[Object]) -> None:
    failed = next((one for one in (condition(each, "ReplicaFailure") for each in sets) if one), None)
    if failed:
        conditions.set("ReplicaFailure", failed["status"], failed.get("reason", ""), failed.get("message", ""))
    else:
        conditions.drop("ReplicaFailure")


def _progress(
    conditions: _Conditions, deployment: Object, new: Object | None, counts: dict[str, int], now: float
) -> float | None:
    spec, before = deployment["spec"], condition(deployment, "Progressing")
    if spec.get("paused"):
        if before is None or before.get("reason") not in ("DeploymentPaused", "ProgressDeadlineExceeded"):
            conditions.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
        return None
    if int(spec.get("progressDeadlineSeconds", 600)) == 2**31 - 1:
        conditions.drop("Progressing")
        return None
    wanted, what = replicas_of(deployment), f'ReplicaSet "{new["metadata"]["name"]}"' if new else "Deployment"
    if _complete(deployment, counts, wanted):
        conditions.set("Progressing", "True", "NewReplicaSetAvailable", f"{what} has successfully progressed.")
        return None
    if before and before.get("reason") == "DeploymentPaused":
        conditions.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
        return now + int(spec.get("progressDeadlineSeconds", 600))
    if before is None or _moved(deployment, counts) or before.get("reason") == "NewReplicaSetAvailable":
        new_set = before is None
        reason = "NewReplicaSetCreated" if new_set else "ReplicaSetUpdated"
        message = (
            f'Created new replica set "{new["metadata"]["name"]}"' if new_set and new else f"{what} is progressing."
        )
        conditions.set("Progressing", "True", reason, message, touch=True)
        return now + int(spec.get("progressDeadlineSeconds", 600))
    since = parse_rfc3339(before.get("lastUpdateTime") or before["lastTransitionTime"])
    deadline = since + int(spec.get("progressDeadlineSeconds", 600))
    if now >= deadline:
        conditions.set("Progressing", "False", "ProgressDeadlineExceeded", f"{what} has timed out progressing.")
        return None
    return deadline


def _complete(deployment: Object, counts: dict[str, int], wanted: int) -> bool:
    return (
        counts["updatedReplicas"] == wanted and counts["replicas"] == wanted and counts["availableReplicas"] == wanted
    )


def _moved(deployment: Object, counts: dict[str, int]) -> bool:
    status = deployment.get("status") or {}
    old = {field: int(status.get(field, 0)) for field in _COUNTS}
    return (
        counts["updatedReplicas"] > old["updatedReplicas"]
        or counts["replicas"] - counts["updatedReplicas"] < old["replicas"] - old["updatedReplicas"]
        or counts["readyReplicas"] > old["readyReplicas"]
        or counts["availableReplicas"] > old["availableReplicas"]
    )
