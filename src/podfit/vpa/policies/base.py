"""The interface of a policy: a name, and a function from usage to sizes.

The size at a sample is the one in force when the sample was taken. It is decided from earlier samples alone, so the
sizes for a prefix of a series are the prefix of its sizes. A size changes at most once an hour, and at once after a
sample above it. A container's sizes do not depend on the other containers of the same call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
CPU, MEMORY = "cpu", "memory"
RESOURCES = (CPU, MEMORY)
GIB = float(2**30)
HOUR, DAY = 3600.0, 86400.0
CHUNK = 512
"""Containers are processed in groups of this many, so that memory stays bounded."""


class InvalidSizes(ValueError):
    """A policy returned an invalid size; the message has the details."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a wrong size, in units of idle capacity. All learning policies minimise the sum of these costs."""

    oom_day: float = 425.0
    """The cost of a day with an out-of-memory kill, in GiB-hours."""
    short: float = 0.97
    """The cost of five minutes of CPU shortage, in core-hours."""
    burst: float = 0.21
    """The same for a container whose usage varies so much that a burst is over by the next sample."""
    drop: float = 0.15
    """CPU: sizes fall in steps of 5 % an hour, unless the drop is more than this: then at once."""
    memory_drop: float = 0.35
    """The same threshold for memory."""

    def scaled(self, factor: float) -> Costs:
        return replace(self, oom_day=self.oom_day * factor, short=self.short * factor, burst=self.burst * factor)


@dataclass(frozen=True, slots=True)
class UsageSeries:
    """The usage of containers [container, sample], in cores or bytes; NaN if unknown."""

    usage: Floats
    step_s: float
    resource: str

    @property
    def hour(self) -> int:
        """The number of samples per hour; 1 if they are further apart than an hour."""
        return max(1, round(HOUR / self.step_s))

    @property
    def day(self) -> int:
        return max(1, round(DAY / self.step_s))

    def rows(self, begin: int, end: int) -> UsageSeries:
        return replace(self, usage=self.usage[begin:end])


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    def sizes(self, series: UsageSeries, costs: Costs) -> Floats:
        """The size in force at each sample; NaN before the first decision."""
        ...


def sizes_of(policy: Policy, series: UsageSeries, costs: Costs | None = None) -> Floats:
    """Runs a policy group by group, and checks its result."""
    costs = costs or Costs()
    out = np.full(series.usage.shape, np.nan, np.float32)
    for begin in range(0, len(out), CHUNK):
        part = series.rows(begin, begin + CHUNK)
        found = np.asarray(policy.sizes(part, costs))
        _check(policy.name, found, part, begin)
        out[begin : begin + CHUNK] = found
    return out


def _check(name: str, found: Floats, part: UsageSeries, begin: int) -> None:
    if found.shape != part.usage.shape:
        raise InvalidSizes(f"policy {name} returned sizes of shape {found.shape} for usage of shape {part.usage.shape}")
    if not np.issubdtype(found.dtype, np.floating):
        raise InvalidSizes(f"policy {name} returned sizes of type {found.dtype}, not numbers with a fraction")
    wrong = np.argwhere((found < 0) | np.isinf(found))
    if len(wrong):
        row, sample = (int(number) for number in wrong[0])
        size = float(found[row, sample])
        raise InvalidSizes(f"policy {name} returned {size:g} as a size of container {begin + row} at sample {sample}")
