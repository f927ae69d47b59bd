"""Is the machine running out of memory, disk or process ids? Readings in, the node's conditions out.

A pressure is told at the first reading that shows it and stays until none has shown it for five minutes, so that a
node that hovers around a threshold does not attract pods in every dip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MEMORY, DISK, PID = "MemoryPressure", "DiskPressure", "PIDPressure"
HOLD_S = 300.0

_MEMORY_LEAST = 100 << 20
_DISK_LEAST, _PID_LEAST = 1 << 30, 1000
_LEAST_SHARE = 0.1
_CALM = {
    MEMORY: ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    DISK: ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    PID: ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
_PRESSED = {
    MEMORY: ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    DISK: ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    PID: ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}


@dataclass(frozen=True, slots=True)
class Readings:
    """None: the machine does not say, which is no pressure."""

    memory_free: int | None = None
    disk_free: int | None = None
    disk_size: int = 0
    pids_used: int | None = None
    pids_most: int = 0
    unwritable: bool = False
    """The agent could not write down its last promise."""


def shown_by(readings: Readings) -> frozenset[str]:
    """The pressures these readings show by themselves."""
    shown = set()
    if readings.memory_free is not None and readings.memory_free < _MEMORY_LEAST:
        shown.add(MEMORY)
    if readings.unwritable or _short(readings.disk_free, readings.disk_size, _DISK_LEAST):
        shown.add(DISK)
    if readings.pids_used is not None and _short(
        readings.pids_most - readings.pids_used, readings.pids_most, _PID_LEAST
    ):
        shown.add(PID)
    return frozenset(shown)


def _short(free: int | None, size: int, least: int) -> bool:
    return free is not None and free < min(_LEAST_SHARE * size, least)


def seen_after(seen: Mapping[str, float], readings: Readings, now: float) -> dict[str, float]:
    """When each pressure was shown last; one that has not been for `HOLD_S` is over."""
    kept = {kind: at for kind, at in seen.items() if now - at < HOLD_S}
    return kept | dict.fromkeys(shown_by(readings), now)


def conditions(pressed: frozenset[str]) -> list[tuple[str, str, str, str]]:
    """(type, status, reason, message) of every pressure there may be."""
    return [
        (kind, "True", *_PRESSED[kind]) if kind in pressed else (kind, "False", *_CALM[kind])
        for kind in (MEMORY, DISK, PID)
    ]
