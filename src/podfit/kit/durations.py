"""Durations in Go's format, which Kubernetes' messages use."""

from __future__ import annotations


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
