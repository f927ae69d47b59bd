"""`auto`: for each container, hour by hour, the rule that would have cost it least so far.

CPU: a forecast for calm containers and one for bursty ones, each with many margins; for the latter also multiples of
recent means.
Memory: maxima of one hour to ten days and of the same hours of earlier days, each with many margins; and the maximum of
a day plus a part of the largest rise so far, within an hour or from a day to the next.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from podfit.vpa.policies.base import Costs
from podfit.vpa.policies.learning.experts import Family, factors
from podfit.vpa.policies.learning.forecast import BURSTY, CALM, cheapest, read
from podfit.vpa.policies.learning.hours import Array, Hours, recent_max, shifted, steady_mean
from podfit.vpa.policies.learning.learned import Learned
from podfit.vpa.policies.rhythm import same_hours

MARGINS = (1.02, 1.05, 1.08, 1.12, 1.16, 1.2, 1.25, 1.3, 1.4, 1.5, 1.65, 1.8, 2.0, 2.3)
WIDE = tuple(float(np.log(margin)) for margin in MARGINS)
SPANS = (6, 24, 72, 240)
RISES = factors(0.3, 1.9, 0.2)
LEAST_RISE, MOST_RISE = 0.02, 1.0
CALM_MARGINS, BURSTY_MARGINS = factors(-0.24, 0.36, 0.04), factors(-0.3, 0.3, 0.06)
MEANS = factors(-0.2, 1.6, 0.18)


def cpu_families(hours: Hours, base: Array, costs: Costs, kinds: Collection[bool]) -> list[Family]:
    both = read(hours, base)
    found: list[Family] = []
    if False in kinds:
        found.append(Family(CALM, cheapest(CALM, both, hours, base, costs.short), CALM_MARGINS, bursty=False))
    if True in kinds:
        found += [
            Family(BURSTY, cheapest(BURSTY, both, hours, base, costs.burst), BURSTY_MARGINS, bursty=True),
            *(Family(f"mean{span}", steady_mean(hours, span), MEANS, bursty=True) for span in (24, 240)),
        ]
    return found


def memory_families(hours: Hours, base: Array, costs: Costs, kinds: Collection[bool]) -> list[Family]:
    day = np.maximum(recent_max(hours.top, 24), base)
    return [
        Family("max1", base, WIDE),
        *(Family(f"max{span}", np.maximum(recent_max(hours.top, span), base), WIDE) for span in SPANS),
        Family("same hours", same_hours(hours, base, 2, 9), WIDE),
        Family("rise", day, RISES, largest_rise(hours.top, 1)),
        Family("rise of a day", day, RISES, largest_rise(day, 24)),
    ]


def largest_rise(level: Array, span: int) -> Array:
    """The largest rise within this many hours in the last ten days, as a logarithm."""
    risen = recent_max(np.log(level) - np.log(shifted(level, span)), 240)
    return np.clip(risen, LEAST_RISE, MOST_RISE)


AUTO = Learned("auto", cpu_families, memory_families)
