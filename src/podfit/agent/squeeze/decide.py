"""The next step of a squeeze probe. Pure.

The brake (memory.high) is lowered by a part of itself while the container does not stall. At the first sign of
pressure, or when the kernel cannot take back what lies above the brake, the probe is over: what was calm before is
enough.
"""

from __future__ import annotations

from dataclasses import dataclass

MI = 1 << 20
STEP = 0.05
CALM = 0.002
"""The part of the time for which tasks may wait for memory without that being pressure."""
LEAST = 16 * MI
DEEPEST = 0.3
"""No container is squeezed below this part of what it used at first."""
SLACK = 0.02
"""So much above the brake usage may be: the kernel takes memory back in batches."""


@dataclass(frozen=True, slots=True)
class Reading:
    used: int
    stalled_us: int
    """All the time that tasks waited for memory, ever."""
    at: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe that is under way: the brake in force, and what was read when it was set."""

    first: int
    high: int
    calm: int
    """The lowest brake under which the container was calm."""
    read: Reading


@dataclass(frozen=True, slots=True)
class Lower:
    probe: Probe


@dataclass(frozen=True, slots=True)
class Done:
    """The brake is to be lifted. `enough` bytes are what the container works with."""

    enough: int
    why: str


def begin(now: Reading) -> Lower | Done:
    if now.used <= LEAST:
        return Done(now.used, "it uses too little to be worth squeezing")
    return Lower(Probe(now.used, _lower(now.used), now.used, now))


def step(probe: Probe, now: Reading) -> Lower | Done:
    """After some seconds under the brake."""
    waited = max(now.at - probe.read.at, 1e-6)
    if (now.stalled_us - probe.read.stalled_us) / (waited * 1e6) > CALM:
        return Done(probe.calm, "it stalled on memory")
    if now.used > probe.high * (1 + SLACK):
        return Done(max(probe.calm, now.used), "the kernel cannot reclaim more")
    floor = max(LEAST, int(probe.first * DEEPEST))
    if probe.high <= floor:
        return Done(probe.high, "it reached the lowest size allowed")
    return Lower(Probe(probe.first, max(_lower(probe.high), floor), probe.high, now))


def _lower(high: int) -> int:
    return max(LEAST, int(high * (1 - STEP)))
