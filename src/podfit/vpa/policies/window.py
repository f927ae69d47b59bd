"""`window`: a sliding window whose length and margin are chosen per container to minimise the cost so far.

For CPU the window's maximum or mean is used, for memory its maximum.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from podfit.vpa.policies.base import Costs
from podfit.vpa.policies.learning.experts import Family, factors
from podfit.vpa.policies.learning.hours import Array, Hours, recent_max, steady_mean
from podfit.vpa.policies.learning.learned import Learned

SPANS = (1, 3, 6, 24, 72, 192)
"""The lengths of windows in hours; the longest is eight days."""


def cpu_families(hours: Hours, base: Array, costs: Costs, kinds: Collection[bool]) -> list[Family]:
    tops, means = factors(-0.3, 0.4, 0.05), factors(-0.2, 1.6, 0.2)
    return [
        *(Family(f"max{span}", np.maximum(recent_max(hours.top, span), base), tops) for span in SPANS[:4]),
        *(Family(f"mean{span}", steady_mean(hours, span), means) for span in SPANS[2:]),
    ]


def memory_families(hours: Hours, base: Array, costs: Costs, kinds: Collection[bool]) -> list[Family]:
    margins = factors(0.02, 0.82, 0.08)
    return [Family(f"max{span}", np.maximum(recent_max(hours.top, span), base), margins) for span in SPANS]


WINDOW = Learned("window", cpu_families, memory_families)
