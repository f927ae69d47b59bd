"""Decides whether the machine is short of memory, disk space or process IDs: readings in, the node's conditions out.

A pressure is reported at the first reading that shows it, and stays until no reading has shown it for five minutes:
otherwise a node near a threshold would attract pods in every dip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podfit.agent.decide.node.thresholds import (
    DEFAULTS,
    DISK,
    INODE_SIGNALS,
    MEMORY,
    MEMORY_SIGNALS,
    PID,
    SPACE_SIGNALS,
    Threshold,
)

HOLD_S = 300.0

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
    """Readings of the machine. None means that a value is unknown, which counts as no pressure."""

    memory_free: int | None = None
    memory_size: int = 0
    disk_free: int | None = None
    disk_size: int = 0
    inodes_free: int | None = None
    inodes_size: int = 0
    pids_used: int | None = None
    pids_most: int = 0
    unwritable: bool = False
    """Whether the agent could not persist its last allocation."""

    def of(self, signal: str) -> tuple[int | None, int]:
        """(available, total) for a threshold's signal. Images and containers are on the node's disk."""
        if signal in MEMORY_SIGNALS:
            return self.memory_free, self.memory_size
        if signal in SPACE_SIGNALS:
            return self.disk_free, self.disk_size
        if signal in INODE_SIGNALS:
            return self.inodes_free, self.inodes_size
        return (self.pids_most - self.pids_used if self.pids_used is not None else None), self.pids_most


@dataclass(frozen=True, slots=True)
class CrossedThreshold:
    """A threshold that was crossed: less than `least` is available."""

    threshold: Threshold
    least: int
    available: int


def crossed(readings: Readings, thresholds: Sequence[Threshold] = DEFAULTS) -> list[CrossedThreshold]:
    found = []
    for threshold in thresholds:
        available, size = readings.of(threshold.signal)
        if available is not None and available < threshold.least(size):
            found.append(CrossedThreshold(threshold, threshold.least(size), available))
    return found


def shown_by(readings: Readings, thresholds: Sequence[Threshold] = DEFAULTS) -> frozenset[str]:
    """The pressures that these readings alone show."""
    shown = {met.threshold.condition for met in crossed(readings, thresholds)}
    return frozenset(shown | {DISK} if readings.unwritable else shown)


def seen_after(
    seen: Mapping[str, float], readings: Readings, now: float, thresholds: Sequence[Threshold] = DEFAULTS
) -> dict[str, float]:
    """The time at which each pressure was last seen; one not seen for `HOLD_S` is over."""
    kept = {kind: at for kind, at in seen.items() if now - at < HOLD_S}
    return kept | dict.fromkeys(shown_by(readings, thresholds), now)


def conditions(pressed: frozenset[str]) -> list[tuple[str, str, str, str]]:
    """(type, status, reason, message) of every pressure condition."""
    return [
        (kind, "True", *_PRESSED[kind]) if kind in pressed else (kind, "False", *_CALM[kind])
        for kind in (MEMORY, DISK, PID)
    ]
