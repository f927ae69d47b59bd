"""Records why and with which grace period a pod is terminated. The only writer of a record's `termination`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podfit.agent.pods.record import PodRecord

DEADLINE_EXCEEDED = "DeadlineExceeded"
_DEADLINE_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Termination:
    grace_s: float
    reason: str = ""
    """Set when the node itself terminates the pod (Preempting, DeadlineExceeded, Evicted …); the pod fails with it."""
    message: str = ""
    disrupted: bool = False
    gone: bool = False
    """Whether the object is no longer in the API: then there is no status to write."""


def deleted(record: PodRecord) -> None:
    """Follows the object's deletionTimestamp. A grace period may become shorter, never longer."""
    meta = record.pod["metadata"]
    if not meta.get("deletionTimestamp"):
        return
    grace = float(meta.get("deletionGracePeriodSeconds") or 0)
    before = record.termination
    if before is None:
        record.termination = Termination(grace)
        record.story.add("deleting", "deleted in the API", grace_s=grace)
    elif grace < before.grace_s and not before.gone:
        record.termination = Termination(grace, before.reason, before.message, before.disrupted)


def gone(record: PodRecord) -> None:
    """The object is no longer in the API."""
    before = record.termination
    record.termination = Termination(before.grace_s if before is not None else 0.0, gone=True)
    record.story.add("gone", "no longer in the API")


def file_removed(record: PodRecord) -> None:
    """The manifest of a static pod was removed."""
    record.termination = Termination(record.grace_s, gone=True)


def evicted(record: PodRecord, reason: str, message: str, grace_s: float, disrupted: bool) -> None:
    """`disrupted` is false for a pod that exceeded its own limits."""
    record.termination = Termination(grace_s, reason, message, disrupted=disrupted)
    record.story.add("evicted", message)


def deadline_exceeded(record: PodRecord, message: str) -> None:
    record.termination = Termination(_DEADLINE_GRACE_S, DEADLINE_EXCEEDED, message)
