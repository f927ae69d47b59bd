"""Where does this resize stand? The one answer, read from a pod as the API shows it. Pure.

A pod is `Settled` while spec, allocation and cgroup agree. It is `Pending` while its node has not allocated what the
spec asks for, and `InProgress` while the node has, and has not applied all of it. A pending resize outranks one in
progress: an earlier resize may still be applied while a newer one waits.

Nodes report with two conditions. Between a write and the node's next report nothing says that a resize has begun but
the generation and the sizes themselves, so these are compared, too: the answer is never ahead of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from podfit.api.objects import ObjectView
from podfit.api.resize.conditions import ERROR, IN_PROGRESS, PENDING, PROPOSED, is_outdated, reported
from podfit.api.resize.states import RESOURCES, Resources, actual_of, allocated_of, desired_of, number
from podfit.api.resize.verdicts import Unjudged, Waiting, verdict_in

_ROUNDING = {("limits", "cpu"): 10, ("limits", "memory"): 64 << 10, ("requests", "cpu"): 27}
"""How far an amount read back from the kernel may be off: its shortest quota, largest page and step of cpu.weight."""


class Progress(Struct, frozen=True, tag=True):
    """Settled, Pending or InProgress."""


class Settled(Progress, frozen=True):
    """Spec, allocation and cgroup agree, or there is no node yet: the pod will start with the size in its spec."""


class Pending(Progress, frozen=True):
    """Not allocated."""

    verdict: Waiting
    since: str | None = None
    """When the condition took its reason (RFC 3339); "" if it does not say; None if no condition reports this."""


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
    """What the status does not show yet. Empty while all of it is applied and the node has not said that it is done."""
    error: str = ""
    """Why the last step failed. The node retries."""
    reason: str = ""
    since: str | None = None
    """As of Pending."""

    @property
    def failing(self) -> bool:
        return self.reason == ERROR


SETTLED = Settled()
_UNJUDGED = Unjudged()


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
    """The first half of the answer, which needs no sizes: what the node has reported as pending."""
    word = (pod.get("status") or {}).get("resize")
    if word == PROPOSED:
        return Pending(_UNJUDGED, "")
    condition = reported(pod, PENDING)
    if condition is None:
        return None
    since = condition.get("lastTransitionTime") or ""
    # Older servers name no generation, and leave their word where a resize asks back what is allocated.
    if is_outdated(pod, condition) or (word and _names_allocation(pod) and _is_allocated(pod)):
        return Pending(_UNJUDGED, since)
    return Pending(verdict_in(condition), since)


def _is_observed(pod: ObjectView, by_condition: bool) -> bool:
    """Whether the node has reported on this generation. One that reports no generation has, if it reports at all."""
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
    """Unset and zero are the same: the API cannot tell the two apart."""
    mine, theirs = (wanted or {}).get(kind) or {}, has.get(kind) or {}
    for name in RESOURCES:
        if name in mine and (one := number(mine[name], name)) != (other := number(theirs.get(name) or 0, name)):
            yield Remaining(container, kind, name, one, other)


def _running(pod: ObjectView) -> set[str]:
    """The containers that run, as far as their status says."""
    status = pod.get("status") or {}
    return {
        container["name"]
        for listed in ("initContainerStatuses", "containerStatuses")
        for container in status.get(listed) or ()
        if "running" in (container.get("state") or {"running": {}})
    }
