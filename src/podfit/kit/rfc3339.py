"""Times in RFC 3339 format, as Kubernetes writes them. Pure: no clock is read."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(seconds: float) -> str:
    """The format of metav1.Time: whole seconds, UTC."""
    return _whole_second(int(seconds))


@lru_cache(maxsize=256)
def _whole_second(seconds: int) -> str:
    # Cached because a busy server formats the same second hundreds of times.
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """The format of metav1.MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
