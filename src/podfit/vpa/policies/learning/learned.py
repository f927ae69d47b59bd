"""A policy that learns: it has families of experts, of which each container follows the cheapest."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import CPU, MEMORY, Costs, Floats, UsageSeries
from podfit.vpa.policies.learning.experts import Family, choose_cpu, choose_memory
from podfit.vpa.policies.learning.fitted import prior
from podfit.vpa.policies.learning.holding import hold
from podfit.vpa.policies.learning.hours import FLOOR, Array, Hours, hours_of
from podfit.vpa.policies.learning.traits import BURSTY, base_of, swing24

Families = Callable[[Hours, Array, Costs, Collection[bool]], list[Family]]
"""The last argument: whether the containers include calm (False) or bursty (True) ones, so that other experts are
skipped."""

CPU_RAISE, MEMORY_RAISE = 1.1, 1.15
"""A sample above the size raises it at once to this multiple of the sample."""
BURSTY_DROP = 0.1


@dataclass(frozen=True, slots=True)
class Learned:
    name: str
    cpu: Families
    memory: Families

    def families(
        self, resource: str, hours: Hours, base: Array, costs: Costs, kinds: Collection[bool] = (False, True)
    ) -> list[Family]:
        return (self.cpu if resource == CPU else self.memory)(hours, base, costs, kinds)

    def sizes(self, series: UsageSeries, costs: Costs) -> Floats:
        hours = hours_of(series)
        if series.resource == CPU:
            bursty = swing24(hours) > BURSTY
            decided = self._cpu(hours, bursty, costs)
            return hold(series, decided, bursty, CPU_RAISE, np.where(bursty, min(BURSTY_DROP, costs.drop), costs.drop))
        base = base_of(hours)
        families = self.families(MEMORY, hours, base, costs)
        decided = choose_memory(hours, families, self._prior(MEMORY, families), costs, FLOOR[MEMORY] / 2)
        drop = np.full(decided.shape, costs.memory_drop)
        return hold(series, decided, np.zeros(decided.shape, bool), MEMORY_RAISE, drop)

    def _cpu(self, hours: Hours, bursty: NDArray[np.bool_], costs: Costs) -> Array:
        """Decides CPU sizes. Containers that were never bursty, or never calm, are not evaluated with the other kind's
        experts."""
        decided = np.full(hours.top.shape, np.nan)
        some, all_ = np.asarray(bursty.any(1)), np.asarray(bursty.all(1))
        for rows, kinds in ((~some, (False,)), (all_ & some, (True,)), (some & ~all_, (False, True))):
            if rows.any():
                part = hours.rows(np.asarray(rows))
                families = self.families(CPU, part, base_of(part), costs, kinds)
                prior = self._prior(CPU, families)
                decided[rows] = choose_cpu(part, families, prior, bursty[rows], costs, FLOOR[CPU] / 2)
        return decided

    def _prior(self, resource: str, families: list[Family]) -> Array:
        return np.concatenate([prior(self.name, resource, family.name, len(family.factors)) for family in families])
