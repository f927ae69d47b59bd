"""Instants as the model counts them: Unix seconds, with upstream's zero time and its rounding.

The model takes whole seconds almost everywhere; fractions are kept where a sample brings them.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

Seconds = float

NEVER: Seconds = -62135596800
"""The zero time (0001-01-01): before any sample."""

LONGEST: Seconds = 9223372036.854775807
"""Differences saturate here, about 292 years."""


def elapsed(later: Seconds, earlier: Seconds) -> Seconds:
    return max(-LONGEST, min(LONGEST, later - earlier))


def nearest_multiple(instant: Seconds, period: Seconds) -> Seconds:
    """The multiple of `period`, counted from the zero time, nearest to `instant`; halves go up."""
    since = instant - NEVER
    return NEVER + math.floor(since / period + 0.5) * period


def to_rfc3339(instant: Seconds) -> str | None:
    """Whole seconds in UTC, None for the zero time, as API objects print times."""
    if instant == NEVER:
        return None
    return datetime.fromtimestamp(math.floor(instant), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_rfc3339(text: str | None) -> Seconds:
    """Raises ValueError for what is no time."""
    if not text:
        return NEVER
    if text.startswith("0001-01-01T00:00:00"):
        return NEVER
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    whole = moment.replace(microsecond=0).timestamp()
    return whole + moment.microsecond / 1e6 if moment.microsecond else int(whole)
