"""How much memory a guest can give back now without killing its own processes. All numbers are MiB."""

from __future__ import annotations

from dataclasses import dataclass

RESERVE_SHARE = 0.06
LEAST_RESERVE = 24
"""What stays available to the guest: page tables, the agent, and whatever it starts meanwhile."""
STEP = 64
"""The balloon grows by no more at once, so that pressure shows before it hurts."""


@dataclass(frozen=True)
class Guest:
    """What the guest says of its memory."""

    total: int
    available: int
    """Free, or freed at once on demand: MemAvailable."""


def reserve(target: int) -> int:
    return max(LEAST_RESERVE, int(target * RESERVE_SHARE))


def can_give(guest: Guest, target: int) -> int:
    """How much of its memory the guest can do without, on the way to the target."""
    return max(0, guest.available - reserve(target))


def next_step(present: int, target: int, guest: Guest) -> int:
    """The next size on the way down to the target; the present one if the guest can give nothing now."""
    if present <= target:
        return target
    return max(target, present - min(STEP, can_give(guest, target)))


def may_detach(size: int, guest: Guest, target: int) -> bool:
    """Whether a device of this size may be detached: all of its content must find room elsewhere."""
    return can_give(guest, target) >= size


def missing(present: int, target: int) -> str:
    return f"{present - target} MiB of {present} MiB are still in use by the guest; retrying"
