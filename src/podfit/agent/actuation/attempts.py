"""Failed actuations of one pod, and when the next attempt is due. The only writer of these fields of the record."""

from __future__ import annotations

from podfit.agent.pods.record import PodRecord

_MOST_S = 60.0


def pause_s(record: PodRecord, allocated: object, now: float) -> float:
    """The seconds until an actuation of this allocation that failed is retried, 0 if it may be tried now."""
    return max(0.0, record.retry_at - now) if record.failed is allocated else 0.0


def succeeded(record: PodRecord) -> None:
    record.doubtful, record.failed = False, None


def failed(record: PodRecord, allocated: object, first_s: float, now: float) -> float:
    """Returns the seconds until the retry, which grow from `first_s` to a minute."""
    record.failures = record.failures + 1 if record.failed is allocated else 1
    pause = min(first_s * 2.0 ** (record.failures - 1), _MOST_S)
    record.failed, record.retry_at = allocated, now + pause
    return pause


def distrust(record: PodRecord) -> None:
    """The kernel may have other values than the ledger says: the next attempt compares, and goes step by step."""
    record.doubtful = True


def retry_now(record: PodRecord) -> None:
    record.failed, record.retry_at = None, 0.0


def settled(record: PodRecord) -> None:
    record.failed = None
