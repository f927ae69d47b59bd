"""The state of a resize, derived from a pod as shown by the API. Pure.

A pod is `Settled` if spec, allocation and cgroup agree. It is `Pending` while its node has not allocated the requested
size, and `InProgress` while the node has allocated it but not applied all of it. A pending resize outranks one in
progress: an earlier resize may still be being applied while a newer one is pending.

Nodes report with two conditions. Between a write and the node's next report, only the generation and the sizes
themselves show that a resize has begun, so these are compared, too: the result is never ahead of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from podfit.api.objects import ObjectView
from podfit.api.resize.conditions import ERROR, IN_PROGRESS, PENDING, PROPOSED, is_outdated, reported
from podfit.api.resize.states import RESOURCES, Resources, actual_of, allocated_of, desired_of, number
from podfit.api.resize.verdicts import Undecided, Waiting, verdict_in

_ROUNDING = {("limits", "cpu"): 10, ("limits", "memory"): 64 << 10, ("requests", "cpu"): 27}
"""The tolerance of an amount read back from the kernel: its shortest quota, largest page and step of cpu.weight."""


class Progress(Struct, frozen=True, tag=True):
    """Settled, Pending or InProgress."""


class Settled(Progress, frozen=True):
    """Spec, allocation and cgroup agree, or there is no node yet: the pod will start with the size in its spec."""


class Pending(Progress, frozen=True):
    """The node has not allocated the requested size."""

    verdict: Waiting
    since: str | None = None
    """When the condition got its reason (RFC 3339); "" if it has no time; None if no condition reports this."""


class Remaining(Struct, frozen=True):
    """An amount that is not applied yet: milli CPUs, or bytes."""

    container: str
    kind: str
    """requests or limits"""
    resource: str
    wanted: int
    actual: int


class InProgress(Progress, frozen=True):
    """Allocated, and not applied, or not confirmed by the node."""

    remaining: tuple[Remaining, ...] = ()
    """Amounts that the status does not show yet. Empty if all are applied and the node has not confirmed it."""
    error: str = ""
    """Why the last step failed. The node retries."""
    reason: str = ""
    since: str | None = None
    """As in Pending."""

    @property
    def failing(self) -> bool:
        return self.reason == ERROR


SETTLED = Settled()
_UNJUDGED = Undecided()


def progress(pod: ObjectView) -> Progress:
    if (waiting := pending(pod)) is not None:
        return waiting
    moving = reported(pod, IN_PROGRESS)
    if moving is None and not (pod.get("spec") or {}).get("nodeName"):
        return SETTLED
    since = None if moving is None else moving.get("lastTransitionTime") or ""
    if not _is_observed(pod, moving is not None) or not _is_allocated(pod):
        return Pending(_UNJUDGED, since)
    remaining = tuple(_remaining(pod))
    if moving is not None:
        return InProgress(remaining, moving.get("message") or "", moving.get("reason") or "", since)
    return InProgress(remaining) if remaining else SETTLED


def pending(pod: ObjectView) -> Pending | None:
    """The pending resize that the node has reported, if any. Unlike `progress`, needs no sizes."""
    word = (pod.get("status") or {}).get("resize")
    if word == PROPOSED:
        return Pending(_UNJUDGED, "")
    condition = reported(pod, PENDING)
    if condition is None:
        return None
    since = condition.get("lastTransitionTime") or ""
    # Older servers report no generation, and keep their word when a resize goes back to the allocated size.
    if is_outdated(pod, condition) or (word and _names_allocation(pod) and _is_allocated(pod)):
        return Pending(_UNJUDGED, since)
    return Pending(verdict_in(condition), since)


def _is_observed(pod: ObjectView, by_condition: bool) -> bool:
    """Whether the node has reported on this generation. If it reports no generation, any report counts."""
    status = pod.get("status") or {}
    seen = status.get("observedGeneration")
    if seen is None:
        return by_condition or bool(status.get("containerStatuses"))
    return bool(seen >= (pod["metadata"].get("generation") or 0))


def _names_allocation(pod: ObjectView) -> bool:
    return any("allocatedResources" in status for status in (pod.get("status") or {}).get("containerStatuses") or ())


def _is_allocated(pod: ObjectView) -> bool:
    desired, allocated, running = desired_of(pod), allocated_of(pod), _running(pod)
    for name, has in allocated.containers.items():
        wanted = desired.containers.get(name) if name in running else None
        if wanted is not None and any(_gaps(name, "requests", wanted, has)):
            return False
    return True


def _remaining(pod: ObjectView) -> Iterator[Remaining]:
    desired, actual, running = desired_of(pod), actual_of(pod), _running(pod)
    for name, has in actual.containers.items():
        wanted = desired.containers.get(name) if name in running else None
        for kind in ("requests", "limits") if wanted is not None else ():
            for gap in _gaps(name, kind, wanted, has):
                if abs(gap.wanted - gap.actual) > (_ROUNDING.get((kind, gap.resource), 0) if gap.actual else 0):
                    yield gap


def _gaps(container: str, kind: str, wanted: Resources | None, has: Resources) -> Iterator[Remaining]:
    """The amounts that differ. Unset and zero are equal, because the API cannot distinguish the two."""
    mine, theirs = (wanted or {}).get(kind) or {}, has.get(kind) or {}
    for name in RESOURCES:
        if name in mine and (one := number(mine[name], name)) != (other := number(theirs.get(name) or 0, name)):
            yield Remaining(container, kind, name, one, other)


def _running(pod: ObjectView) -> set[str]:
    """The running containers, according to their status."""
    status = pod.get("status") or {}
    return {
        container["name"]
        for listed in ("initContainerStatuses", "containerStatuses")
        for container in status.get(listed) or ()
        if "running" in (container.get("state") or {"running": {}})
    }
