"""Durations in Go's format, which Kubernetes' messages use, and the units in which durations are written."""

from __future__ import annotations

from collections.abc import Mapping

GO_UNITS_S: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
"""The units of Go's durations, in seconds; "µ" has two code points."""
UNITS_S: Mapping[str, float] = {**GO_UNITS_S, "d": 86400.0, "w": 7 * 86400.0}
"""Go's units, days and weeks, in seconds."""


def go_duration(seconds: float) -> str:
    """`1h2m0.5s`, `250ms`, `0s`: hours and minutes if there are any, then seconds with as many decimals as needed."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.6f}".rstrip("0").rstrip(".") + "ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    shown = f"{rest:.9f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{shown}"
    return f"{minutes}m{shown}" if minutes else shown
