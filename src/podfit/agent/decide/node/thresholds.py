"""Eviction thresholds: parses the flag `--eviction-hard` as kubelets do, and decides when a threshold is met. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from podfit.api.quantity import Quantity

MEMORY, DISK, PID = "MemoryPressure", "DiskPressure", "PIDPressure"

MEMORY_SIGNALS = ("memory.available", "allocatableMemory.available")
SPACE_SIGNALS = ("nodefs.available", "imagefs.available", "containerfs.available")
INODE_SIGNALS = ("nodefs.inodesFree", "imagefs.inodesFree", "containerfs.inodesFree")
PID_SIGNALS = ("pid.available",)
CONDITIONS = (
    dict.fromkeys(MEMORY_SIGNALS, MEMORY)
    | dict.fromkeys(SPACE_SIGNALS + INODE_SIGNALS, DISK)
    | dict.fromkeys(PID_SIGNALS, PID)
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold that is met if less is available than `quantity`, or than `share` of the total (but never more than
    `at_most`)."""

    signal: str
    quantity: int | None = None
    share: float = 0.0
    at_most: int | None = None

    def least(self, size: int) -> int:
        if self.quantity is not None:
            return self.quantity
        part = int(self.share * size)
        return part if self.at_most is None else min(part, self.at_most)

    @property
    def condition(self) -> str:
        return CONDITIONS[self.signal]

    @property
    def text(self) -> str:
        """The value as in the flag."""
        if self.quantity is not None:
            return str(Quantity.of_units(self.quantity, "BinarySI"))
        return f"{self.share * 100:g}%"


DEFAULTS = (
    Threshold("memory.available", quantity=100 << 20),
    # The kubelet's 10 % of a large disk is more than needed on a machine that is not only a node.
    Threshold("nodefs.available", share=0.1, at_most=1 << 30),
    Threshold("pid.available", share=0.1, at_most=1000),
)


class BadThreshold(ValueError):
    """The flag cannot be parsed; the message says why."""


def parse(text: str) -> tuple[Threshold, ...]:
    """Parses `memory.available<100Mi,nodefs.available<10%`. A signal that is not named has no threshold, as in a
    kubelet."""
    found: dict[str, Threshold | None] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        signal, mark, value = part.partition("<")
        if not mark:
            raise BadThreshold(f"malformed pair, expect string<string: {part}")
        found[signal.strip()] = _one(signal.strip(), value.strip())
    return tuple(threshold for threshold in found.values() if threshold is not None)


def _one(signal: str, value: str) -> Threshold | None:
    if signal not in CONDITIONS:
        raise BadThreshold(f"unsupported eviction signal {signal}")
    if value.endswith("%"):
        return _percentage(signal, value)
    try:
        quantity = Quantity.parse(value)
    except ValueError as error:
        raise BadThreshold(str(error)) from error
    if quantity.nanos <= 0:
        raise BadThreshold(f"eviction threshold {signal} must be positive: {quantity}")
    return Threshold(signal, quantity=quantity.value)


def _percentage(signal: str, value: str) -> Threshold | None:
    if value in ("0%", "100%"):
        # The kubelet's syntax to disable a threshold.
        return None
    number = value.rstrip("%")
    if not _NUMBER.fullmatch(number):
        raise BadThreshold(f'strconv.ParseFloat: parsing "{number}": invalid syntax')
    share = float(number) / 100
    if share < 0:
        raise BadThreshold(f"eviction percentage threshold {signal} must be >= 0%: {value}")
    if share > 1:
        raise BadThreshold(f"eviction percentage threshold {signal} must be <= 100%: {value}")
    return Threshold(signal, share=share)
