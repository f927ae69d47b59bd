"""Instants in the autoscaler's model: Unix seconds, with upstream's zero time and rounding.

Almost all instants are whole seconds; those of samples may have fractions.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

Seconds = float

NEVER: Seconds = -62135596800
"""The zero time (0001-01-01): before any sample."""

LONGEST: Seconds = 9223372036.854775807
"""Differences saturate at this, about 292 years."""


def elapsed(later: Seconds, earlier: Seconds) -> Seconds:
    return max(-LONGEST, min(LONGEST, later - earlier))


def nearest_multiple(instant: Seconds, period: Seconds) -> Seconds:
    """The multiple of `period`, counted from the zero time, that is nearest to `instant`; halves are rounded up."""
    since = instant - NEVER
    return NEVER + math.floor(since / period + 0.5) * period


def to_rfc3339(instant: Seconds) -> str | None:
    """Whole seconds in UTC, in the format of API objects; None for the zero time."""
    if instant == NEVER:
        return None
    return datetime.fromtimestamp(math.floor(instant), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_rfc3339(text: str | None) -> Seconds:
    """Parses a time of an API object. Raises ValueError if it is invalid."""
    if not text:
        return NEVER
    if text.startswith("0001-01-01T00:00:00"):
        return NEVER
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    whole = moment.replace(microsecond=0).timestamp()
    return whole + moment.microsecond / 1e6 if moment.microsecond else int(whole)
