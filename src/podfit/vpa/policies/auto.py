"""`auto`: for each container, hour by hour, the rule that would have cost it least so far.

CPU: a forecast for calm containers and one for bursty ones, each with many margins, and multiples of recent means.
Memory: maxima of one hour to ten days, and of the same hours of earlier days, each with many margins.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from podfit.vpa.policies.base import Costs
from podfit.vpa.policies.learning.experts import Family, factors
from podfit.vpa.policies.learning.forecast import cheapest, forecast, read
from podfit.vpa.policies.learning.hours import Array, Hours, recent_max, steady_mean
from podfit.vpa.policies.learning.learned import Learned
from podfit.vpa.policies.rhythm import same_hours

MARGINS = (1.02, 1.05, 1.08, 1.12, 1.16, 1.2, 1.25, 1.3, 1.4, 1.5, 1.65, 1.8, 2.0, 2.3)
WIDE = tuple(float(np.log(margin)) for margin in MARGINS)
SPANS = (6, 24, 72, 240)
MEANS = factors(-0.2, 1.6, 0.18)


def cpu_families(hours: Hours, base: Array, costs: Costs, kinds: Collection[bool]) -> list[Family]:
    both = read(hours, base)
    found: list[Family] = []
    if False in kinds:
        calm = forecast("calm", both, base)
        found += [
            Family("calm", calm.level, factors(-0.24, 0.6, 0.04), bursty=False),
            Family("calm spread", calm.level, factors(-1.5, 5.7, 0.6), calm.spread, bursty=False),
        ]
    if True in kinds:
        cheap = cheapest(both, hours, base, costs.burst)
        found += [
            Family("bursty", forecast("bursty", both, base).level, factors(-1.2, 0.6, 0.15), bursty=True),
            Family("cheapest", cheap, factors(-0.6, 0.6, 0.06), bursty=True),
            *(Family(f"mean{span}", steady_mean(hours, span), MEANS, bursty=True) for span in (24, 240)),
        ]
    return found


def memory_families(hours: Hours, base: Array, costs: Costs, kinds: Collection[bool]) -> list[Family]:
    return [
        Family("max1", base, WIDE),
        *(Family(f"max{span}", np.maximum(recent_max(hours.top, span), base), WIDE) for span in SPANS),
        Family("same hours", same_hours(hours, base, 2, 9), WIDE),
    ]


AUTO = Learned("auto", cpu_families, memory_families)
