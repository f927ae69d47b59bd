"""Computes how much memory a guest can release now without killing its own processes. All numbers are MiB."""

from __future__ import annotations

from dataclasses import dataclass

RESERVE_SHARE = 0.06
LEAST_RESERVE = 24
"""The memory that the guest keeps in reserve: for page tables, the agent, and new processes."""
STEP = 64
"""The maximum step of the balloon, so that pressure is noticed before it does harm."""


@dataclass(frozen=True)
class Guest:
    """The guest's memory statistics."""

    total: int
    available: int
    """Memory that is free or immediately reclaimable: MemAvailable."""


def reserve(target: int) -> int:
    return max(LEAST_RESERVE, int(target * RESERVE_SHARE))


def can_give(guest: Guest, target: int) -> int:
    """The amount of memory that the guest can release on the way to the target."""
    return max(0, guest.available - reserve(target))


def next_step(present: int, target: int, guest: Guest) -> int:
    """The next size on the way down to the target; the current one if the guest can release nothing now."""
    if present <= target:
        return target
    return max(target, present - min(STEP, can_give(guest, target)))


def may_detach(size: int, guest: Guest, target: int) -> bool:
    """Whether a device of this size may be detached: its whole content must fit elsewhere."""
    return can_give(guest, target) >= size


def missing(present: int, target: int) -> str:
    return f"{present - target} MiB of {present} MiB are still in use by the guest; retrying"
