"""Counts a pod's failed actuations and computes when the next attempt is due. The only writer of these fields of the
record."""

from __future__ import annotations

from podfit.agent.pods.record import PodRecord

_MOST_S = 60.0


def pause_s(record: PodRecord, allocated: object, now: float) -> float:
    """The seconds until a failed actuation of this allocation is retried; 0 if it may be tried now."""
    return max(0.0, record.retry_at - now) if record.failed is allocated else 0.0


def succeeded(record: PodRecord) -> None:
    record.unverified, record.failed = False, None


def failed(record: PodRecord, allocated: object, first_s: float, now: float) -> float:
    """Returns the seconds until the retry, which grow from `first_s` to a minute."""
    record.failures = record.failures + 1 if record.failed is allocated else 1
    pause = min(first_s * 2.0 ** (record.failures - 1), _MOST_S)
    record.failed, record.retry_at = allocated, now + pause
    return pause


def mark_unverified(record: PodRecord) -> None:
    """Marks that the kernel's values may differ from the ledger's: the next attempt compares them and applies one step
    at a time."""
    record.unverified = True


def retry_now(record: PodRecord) -> None:
    record.failed, record.retry_at = None, 0.0


def settled(record: PodRecord) -> None:
    record.failed = None
