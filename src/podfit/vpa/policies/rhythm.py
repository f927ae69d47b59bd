"""`rhythm`: usage in the coming hour on earlier days, with a margin that each container learns from its own past.

Daily rhythm: the hours around the coming one on earlier days. Weekly rhythm: the same hours a week ago. The usage of
the last hour always counts.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from podfit.vpa.policies.base import Costs
from podfit.vpa.policies.learning.experts import Family, factors
from podfit.vpa.policies.learning.hours import Array, Hours, recent_max, shifted
from podfit.vpa.policies.learning.learned import Learned


def same_hours(hours: Hours, base: Array, around: int, days: int) -> Array:
    """The maximum over the coming hour and `around` hours before and after it, on each of the last `days` days."""
    wide = recent_max(hours.top, 2 * around + 1)
    found = base
    for day in range(1, days + 1):
        found = np.fmax(found, shifted(wide, 24 * day - 1 - around))
    return np.maximum(found, base)


def last_week(hours: Hours, base: Array) -> Array:
    wide = recent_max(hours.top, 3)
    return np.maximum(np.fmax(base, shifted(wide, 24 * 7 - 2)), base)


def _families(hours: Hours, base: Array, margins: tuple[float, ...]) -> list[Family]:
    return [
        Family("yesterday", same_hours(hours, base, 1, 1), margins),
        Family("three days", same_hours(hours, base, 1, 3), margins),
        Family("all days", same_hours(hours, base, 2, 9), margins),
        Family("last week", last_week(hours, base), margins),
    ]


def cpu_families(hours: Hours, base: Array, costs: Costs, kinds: Collection[bool]) -> list[Family]:
    return _families(hours, base, factors(-0.9, 0.6, 0.1))


def memory_families(hours: Hours, base: Array, costs: Costs, kinds: Collection[bool]) -> list[Family]:
    return _families(hours, base, factors(0.02, 0.82, 0.08))


RHYTHM = Learned("rhythm", cpu_families, memory_families)
