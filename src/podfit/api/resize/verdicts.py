"""A node's verdict on a resize, as a value, and its reading from the condition PodResizePending. Pure.

The agent decides `Granted`, `Unchanged`, `Deferred` or `Infeasible`. Other components see only what it has reported: a
granted resize is no longer pending, one that the node has not decided yet is `Undecided`.

A verdict applies to one generation of the spec. A later resize makes it outdated until the node has decided again.
"""

from __future__ import annotations

from msgspec import Struct

from podfit.api.objects import ObjectView
from podfit.api.resize.conditions import DEFERRED, INFEASIBLE, PENDING, is_outdated, listed


class Shortage(Struct, frozen=True):
    """A resource that a node has too little of: milli CPUs, bytes, or a count."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


class Granted(Struct, frozen=True):
    """The node allocates the desired size."""


class Unchanged(Struct, frozen=True):
    """There is nothing to decide: the desired size is already allocated."""


class Undecided(Struct, frozen=True):
    """The node has not decided on this spec yet."""


class Deferred(Struct, frozen=True):
    """No room now. The node retries when pods shrink or end."""

    reason: str = ""
    """The reason in the Event (OutOfcpu); the condition's is Deferred. "" if it was read from the condition."""
    message: str = ""
    missing: tuple[Shortage, ...] = ()


class Infeasible(Struct, frozen=True):
    """Impossible on this node, even if all other pods were gone. Not retried."""

    detail: str = ""
    """The label of the metric; "" if it was read from the condition."""
    message: str = ""


class Unknown(Struct, frozen=True):
    """Pending for a reason that Kubernetes does not define."""

    reason: str = ""
    message: str = ""


Verdict = Granted | Unchanged | Deferred | Infeasible
"""A node's decision."""
Waiting = Undecided | Deferred | Infeasible | Unknown
"""The reasons for a pending resize that other components can determine."""


def verdict_in(condition: ObjectView) -> Deferred | Infeasible | Unknown:
    """The verdict that a condition PodResizePending reports."""
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    if reason == DEFERRED:
        return Deferred(message=message)
    if reason == INFEASIBLE:
        return Infeasible(message=message)
    return Unknown(reason, message)


def is_resize_infeasible(pod: ObjectView) -> bool:
    """Whether the node can never grant the requested size: then nothing needs to be reserved for it. As in Kubernetes,
    only the reason counts, not the condition's status."""
    condition = listed(pod, PENDING)
    return condition is not None and condition.get("reason") == INFEASIBLE and not is_outdated(pod, condition)
