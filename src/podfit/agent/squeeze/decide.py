"""Decides the next step of a squeeze probe. Pure.

memory.high is lowered by a fraction of itself while the container does not stall. At the first sign of pressure, or
when the kernel cannot reclaim the memory above it, the probe is over: the last value without pressure is sufficient.
"""

from __future__ import annotations

from dataclasses import dataclass

MI = 1 << 20
STEP = 0.05
CALM = 0.002
"""The fraction of time for which tasks may stall on memory without it counting as pressure."""
LEAST = 16 * MI
DEEPEST = 0.3
"""No container is squeezed below this fraction of its initial usage."""
SLACK = 0.02
"""Usage may exceed memory.high by this much: the kernel reclaims memory in batches."""


@dataclass(frozen=True, slots=True)
class MemoryReading:
    used: int
    stalled_us: int
    """Total time that tasks stalled on memory."""
    at: float
    """The time of the reading, in seconds."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe in progress: the current memory.high, and the readings when it was set."""

    first: int
    high: int
    calm: int
    """The lowest memory.high without pressure."""
    read: MemoryReading


@dataclass(frozen=True, slots=True)
class Lower:
    probe: Probe


@dataclass(frozen=True, slots=True)
class Finished:
    """The probe is over and memory.high is to be reset. `enough` bytes are the working set."""

    enough: int
    why: str


def begin(now: MemoryReading) -> Lower | Finished:
    if now.used <= LEAST:
        return Finished(now.used, "it uses too little to be worth squeezing")
    return Lower(Probe(now.used, _lower(now.used), now.used, now))


def step(probe: Probe, now: MemoryReading) -> Lower | Finished:
    """The next step, after some seconds at the current memory.high."""
    waited = max(now.at - probe.read.at, 1e-6)
    if (now.stalled_us - probe.read.stalled_us) / (waited * 1e6) > CALM:
        return Finished(probe.calm, "it stalled on memory")
    if now.used > probe.high * (1 + SLACK):
        return Finished(max(probe.calm, now.used), "the kernel cannot reclaim more")
    floor = max(LEAST, int(probe.first * DEEPEST))
    if probe.high <= floor:
        return Finished(probe.high, "it reached the lowest size allowed")
    return Lower(Probe(probe.first, max(_lower(probe.high), floor), probe.high, now))


def _lower(high: int) -> int:
    return max(LEAST, int(high * (1 - STEP)))
