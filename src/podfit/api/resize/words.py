"""The one word by which servers before 1.33 report a resize (`status.resize`), derived from a native pod. Pure.

The native API has two conditions with the generation they refer to. The word is derived from them: a spec that the node
has not decided on is Proposed, PodResizePending gives its reason, and PodResizeInProgress is InProgress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.resize.conditions import (
    CONDITIONS,
    DEFERRED,
    IN_PROGRESS,
    IN_PROGRESS_WORD,
    INFEASIBLE,
    PENDING,
    PROPOSED,
    reported,
)

DECIDED = (IN_PROGRESS_WORD, DEFERRED, INFEASIBLE)
RESIZABLE = ("cpu", "memory")

Amounts = Mapping[str, str]


class ReportedResize(NamedTuple):
    """The resize of a pod according to its conditions."""

    pending: str = ""
    """The reason of PodResizePending; "" if there is no such condition."""
    in_progress: bool = False
    unanswered: bool = False
    """The spec is newer than the node's last report."""


def resize_of(pod: Object) -> ReportedResize:
    pending = reported(pod, PENDING)
    reason = "" if pending is None else pending.get("reason") or DEFERRED
    generation, seen = pod["metadata"].get("generation") or 0, (pod.get("status") or {}).get("observedGeneration") or 0
    return ReportedResize(reason, reported(pod, IN_PROGRESS) is not None, generation > seen)


def by_name(listed: Sequence[Object] | None) -> dict[str, Object]:
    return {row.get("name", ""): row for row in listed or ()}


def same(one: str | None, other: str | None) -> bool:
    """Whether two amounts are equal; an unset amount equals only an unset one."""
    if one is None or other is None or one == other:
        return one == other
    return Quantity.parse(one) == Quantity.parse(other)


def differ(one: Amounts | None, other: Amounts | None) -> set[str]:
    """The resizable resources whose amounts differ between two lists."""
    mine, theirs = one or {}, other or {}
    return {name for name in RESIZABLE if not same(mine.get(name), theirs.get(name))}


class Gap(NamedTuple):
    """The resources of a pod that are not yet at their target."""

    requests: frozenset[str]
    """Requested and allocated differ."""
    limits: frozenset[str]
    """The limit in the spec and the one reported by the runtime differ."""
    unapplied: frozenset[str]
    """Allocated differs from what the runtime reports."""

    @property
    def any(self) -> frozenset[str]:
        return self.requests | self.limits | self.unapplied


def gap_of(pod: Object) -> Gap:
    """The gap of a pod, from the containers that the node has reported on."""
    statuses = by_name((pod.get("status") or {}).get("containerStatuses"))
    requests: set[str] = set()
    limits: set[str] = set()
    unapplied: set[str] = set()
    for container in pod["spec"].get("containers") or ():
        status = statuses.get(container.get("name", ""))
        if status is None:
            continue
        requested, actual = container.get("resources") or {}, status.get("resources")
        allocated = status.get("allocatedResources")
        requests |= differ(requested.get("requests"), allocated)
        if actual is not None:
            limits |= differ(requested.get("limits"), actual.get("limits"))
            unapplied |= differ(allocated, actual.get("requests"))
    return Gap(frozenset(requests), frozenset(limits), frozenset(unapplied))


def decided(conditions: Sequence[Object], pending: str, in_progress: bool, generation: int, now: str) -> list[Object]:
    """The conditions of a pod whose node has decided on `generation`: those of a resize are replaced, others kept."""
    kept = [condition for condition in conditions if condition.get("type") not in CONDITIONS]
    before = {condition.get("type"): condition for condition in conditions}
    made = []
    if pending:
        made.append(_condition(before.get(PENDING), PENDING, pending, generation, now))
    if in_progress:
        made.append(_condition(before.get(IN_PROGRESS), IN_PROGRESS, "", generation, now))
    return made + kept


def _condition(before: Object | None, kind: str, reason: str, generation: int, now: str) -> Object:
    if before is not None and before.get("status") == "True" and (before.get("reason") or "") == reason:
        return {**before, "observedGeneration": generation}
    made = {"type": kind, "observedGeneration": generation, "status": "True"}
    made |= {"lastProbeTime": now, "lastTransitionTime": now}
    return {**made, "reason": reason} if reason else made


def accepted(new: Object, old: Object, now: str) -> Object | None:
    """The intermediate state between a pending resize and a completed one, if a node reports both steps at once: the
    new allocation, which the runtime has not applied yet. None if there is no new allocation, or it was already
    shown."""
    after, before = resize_of(new), resize_of(old)
    if after.pending or after.in_progress or before.in_progress:
        return None
    status, reported = old.get("status") or {}, by_name((new.get("status") or {}).get("containerStatuses"))
    answers = before.unanswered and not after.unanswered
    listed = [
        _accepted(container_status, reported.get(container_status.get("name", "")), answers)
        for container_status in status.get("containerStatuses") or ()
    ]
    if not any(
        answered is not stored for answered, stored in zip(listed, status.get("containerStatuses") or (), strict=True)
    ):
        return None
    generation = old["metadata"].get("generation") or 0
    conditions = decided(status.get("conditions") or (), "", True, generation, now)
    shown = {**status, "containerStatuses": listed, "conditions": conditions, "observedGeneration": generation}
    return {**old, "metadata": dict(old["metadata"]), "status": shown}


def _accepted(stored: Object, reported: Object | None, answers: bool) -> Object:
    """The status of a container with its new allocation; the stored one if it did not change."""
    if reported is None or not (stored.get("state") or {}).get("running") or stored.get("resources") is None:
        return stored
    allocated, actual = reported.get("allocatedResources"), reported.get("resources") or {}
    if differ(allocated, stored.get("allocatedResources") or stored["resources"].get("requests")):
        return {**stored, "allocatedResources": allocated}
    limits = stored["resources"].get("limits")
    return dict(stored) if answers and differ(actual.get("limits"), limits) else stored


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def words_by_resource(pod: Object) -> dict[str, str]:
    """The state of the resize per resource: Proposed, the reason why it is pending, or InProgress."""
    resize, gap = resize_of(pod), gap_of(pod)
    waiting, applying = gap.requests | gap.limits, gap.unapplied | gap.limits
    found: dict[str, str] = {}
    for name in RESIZABLE:
        if resize.unanswered and name in waiting:
            found[name] = PROPOSED
        elif resize.pending and (name in gap.requests or (name in gap.limits and not resize.in_progress)):
            found[name] = resize.pending
        elif resize.in_progress and name in applying:
            found[name] = IN_PROGRESS_WORD
    return found
