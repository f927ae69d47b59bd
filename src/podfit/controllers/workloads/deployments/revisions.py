"""Finds the ReplicaSet of a Deployment for a template, and numbers the revisions of its history. Pure."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.controllers.workloads.sizes import differ_in_size_only

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = {REVISION, REVISION_HISTORY, DESIRED, MAXIMUM, "kubectl.kubernetes.io/last-applied-configuration"}


def replicas_of(obj: Object) -> int:
    return int((obj.get("spec") or {}).get("replicas", 1))


def count(obj: Object, field: str) -> int:
    return int((obj.get("status") or {}).get(field, 0))


def revision_of(obj: Object) -> int:
    return _noted(obj, REVISION)


def aim_of(replica_set: Object) -> int:
    """The maximum total of the Deployment when this set's size was chosen; 0: unknown."""
    return _noted(replica_set, MAXIMUM)


def _noted(obj: Object, annotation: str) -> int:
    try:
        return int((obj["metadata"].get("annotations") or {}).get(annotation, "0"))
    except ValueError:
        return 0


def bare_template(template: Object) -> Object:
    """A template without the hash label that a ReplicaSet adds to it."""
    meta = {**(template.get("metadata") or {})}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH_LABEL}
    meta.pop("labels", None)
    if labels:
        meta["labels"] = labels
    return {**template, "metadata": meta}


def by_age(sets: list[Object]) -> list[Object]:
    return sorted(
        sets,
        key=lambda replica_set: (
            str(replica_set["metadata"].get("creationTimestamp")),
            replica_set["metadata"]["name"],
        ),
    )


def find_new(deployment: Object, sets: list[Object]) -> Object | None:
    """The oldest ReplicaSet with exactly the Deployment's template."""
    wanted = bare_template(deployment["spec"]["template"])
    return next(
        (replica_set for replica_set in by_age(sets) if bare_template(replica_set["spec"]["template"]) == wanted), None
    )


def find_resizable(deployment: Object, sets: list[Object]) -> Object | None:
    """The ReplicaSet whose running pods a resize alone brings to the Deployment's template."""
    wanted = bare_template(deployment["spec"]["template"])
    alike = [
        replica_set
        for replica_set in sets
        if differ_in_size_only(bare_template(replica_set["spec"]["template"]), wanted)
    ]
    running = [replica_set for replica_set in alike if replicas_of(replica_set) or count(replica_set, "replicas")]
    return max(running, key=lambda replica_set: (replicas_of(replica_set), revision_of(replica_set)), default=None)


def set_annotations(deployment: Object, current: dict[str, str], revision: int, maximum: int) -> dict[str, str]:
    """The annotations of a ReplicaSet: the Deployment's own, its revision, and the total its size was chosen for.

    The last stays until another size is chosen: it records the set's share of the whole.
    """
    copied = {
        key: value for key, value in (deployment["metadata"].get("annotations") or {}).items() if key not in _NOT_COPIED
    }
    aims = {DESIRED: str(replicas_of(deployment)), MAXIMUM: str(maximum)}
    made = {**aims, **current, **copied, REVISION: str(revision)}
    before = current.get(REVISION)
    if before and before != str(revision):
        made[REVISION_HISTORY] = ",".join(filter(None, [current.get(REVISION_HISTORY, ""), before]))
    return made
