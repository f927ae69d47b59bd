"""Decides the effect of a delete on an object: grace, finalizers, propagation, preconditions. Does not access the
store.

The order is Kubernetes': preconditions, then the grace period of the strategy, then the finalizers that the propagation
policy adds. An object with neither grace period nor finalizers is removed immediately.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError, conflict
from podfit.apiserver.strategy import strategy_for
from podfit.kit.clock import rfc3339

_ORPHANING = (("batch", "jobs"), ("", "replicationcontrollers"))
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"

RETURNS_OBJECT = frozenset(
    (
        ("", "pods"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("", "podtemplates"),
        ("", "resourcequotas"),
        ("", "services"),
        ("", "serviceaccounts"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
        ("storage.k8s.io", "volumeattributesclasses"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaimtemplates"),
        ("resource.k8s.io", "resourceslices"),
    )
)
"""Kinds whose deletion returns the object instead of a Status."""


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """`write`: the modified object has to be stored; `remove`: it has to be removed afterwards. Neither: the deletion
    is already in progress.
    """

    write: bool = False
    remove: bool = False


def check_preconditions(kind: Kind, obj: Object, options: Object) -> None:
    wanted, meta = options.get("preconditions") or {}, obj["metadata"]
    for field, word, hint in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        value = wanted.get(field)
        if value is not None and value != meta.get(field):
            why = (
                f"the {word} in the precondition ({value}) does not match the {word} in record ({meta.get(field)}). "
                f"{hint}"
            )
            raise _kind_conflict(kind, meta["name"], why)


def _kind_conflict(kind: Kind, name: str, why: str) -> ApiError:
    return conflict(kind.kind, name, why, kind.group)


def decide(kind: Kind, obj: Object, options: Object, now_s: float) -> DeleteOutcome:
    """Decides the outcome of a delete. Modifies `obj` in place if it has to be written."""
    meta = obj["metadata"]
    if (kind.group, kind.plural) == ("", "namespaces"):
        return _decide_namespace(obj, options, now_s)
    if kind.plural == "customresourcedefinitions" and not meta.get("deletionTimestamp"):
        return _decide_definition(obj, now_s)
    step = strategy_for(kind).graceful_delete(obj, options, datetime.fromtimestamp(now_s, UTC))
    if step.pending:
        return DeleteOutcome()
    before = list(meta.get("finalizers") or ())
    finalizers = _finalizers(kind, before, options)
    if finalizers:
        meta["finalizers"] = finalizers
    elif before:
        meta.pop("finalizers")
    if step.graceful:
        return DeleteOutcome(write=True, remove=not finalizers and step.grace_s <= 0)
    if not finalizers:
        return DeleteOutcome(remove=True)
    changed = finalizers != before or not meta.get("deletionTimestamp")
    mark(meta, now_s)
    return DeleteOutcome(write=changed)


def mark(meta: Object, now_s: float) -> None:
    """Marks an object as being deleted; its finalizers keep it."""
    if meta.get("deletionGracePeriodSeconds") is None and meta.get("generation"):
        meta["generation"] += 1
    meta.setdefault("deletionTimestamp", rfc3339(now_s))
    meta["deletionGracePeriodSeconds"] = 0


def _decide_namespace(obj: Object, options: Object, now_s: float) -> DeleteOutcome:
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = rfc3339(now_s)
        obj.setdefault("status", {})["phase"] = "Terminating"
        if options.get("orphanDependents") or options.get("propagationPolicy") == "Orphan":
            meta["finalizers"] = [*(meta.get("finalizers") or ()), ORPHAN]
        return DeleteOutcome(write=True)
    if (obj.get("spec") or {}).get("finalizers") or meta.get("finalizers"):
        return DeleteOutcome()
    return DeleteOutcome(remove=True)


def _decide_definition(obj: Object, now_s: float) -> DeleteOutcome:
    """Decides the deletion of a definition, which remains until its objects are removed, regardless of options."""
    meta, status, now = obj["metadata"], obj.setdefault("status", {}), rfc3339(now_s)
    meta["deletionTimestamp"] = now
    if CLEANUP not in (meta.get("finalizers") or ()):
        meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP]
    why = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": why,
    }
    status["conditions"] = [
        *(row for row in status.get("conditions") or () if row["type"] != condition["type"]),
        condition,
    ]
    return DeleteOutcome(write=True)


def _finalizers(kind: Kind, existing: list[str], options: Object) -> list[str]:
    if kind.plural == "events":
        return existing
    orphan, policy = options.get("orphanDependents"), options.get("propagationPolicy")
    if orphan is not None:
        wanted = ORPHAN if orphan else ""
    elif policy is not None:
        wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy, "")
    elif ORPHAN in existing or FOREGROUND in existing:
        wanted = ORPHAN if ORPHAN in existing else FOREGROUND
    else:
        wanted = ORPHAN if orphans(kind) else ""
    kept = [word for word in existing if word not in (ORPHAN, FOREGROUND)]
    return [*kept, wanted] if wanted else kept


def orphans(kind: Kind) -> bool:
    """Whether dependents are orphaned by default."""
    return (kind.group, kind.plural) in _ORPHANING


def warnings(kind: Kind, options: Object) -> list[str]:
    stated = options.get("propagationPolicy") is not None or options.get("orphanDependents") is not None
    if stated or (kind.group, kind.plural) != ("batch", "jobs"):
        return []
    return [
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
        "set propagationPolicy=Orphan to suppress this warning"
    ]


def ends_with(kind: Kind, new: Object, old: Object) -> bool:
    """Whether an update removes the last finalizer of a deleted object."""
    stored = old["metadata"]
    if not stored.get("deletionTimestamp") or new["metadata"].get("finalizers"):
        return False
    if (kind.group, kind.plural) == ("", "namespaces"):
        return not (new.get("spec") or {}).get("finalizers")
    return not stored.get("deletionGracePeriodSeconds")
