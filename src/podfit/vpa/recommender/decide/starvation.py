"""Containers that use up their CPU limit: what they used is a lower bound of what they need.

Such a container's samples say nothing about its demand, so its recommendation grows in large steps until it no longer
uses up its limit. From then on what it used lately counts, until the histogram, which is slow, has learned it.
No clock and no I/O: instants are those of samples.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from podfit.vpa.model.times import NEVER, Seconds
from podfit.vpa.recommender.decide.cluster import AggregateKey, Vpa
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.estimate import Estimate, with_margin

GAP_S = 150.0
"""A container that has not reported for so long, while others have, is no longer counted as starved."""
LATELY_S = 3600.0
SUSTAINED_S = 240.0
"""So long a container must be starved before it is worth an eviction: a pod that starts often uses up its limit."""
MOST_SAMPLES = 2048


@dataclass(slots=True)
class AtLimit:
    """A container that uses up its limit: the limit, and since when."""

    millicores: int
    since: Seconds
    last: Seconds


@dataclass(slots=True)
class Starved:
    """What is known about the starved containers of one aggregate."""

    at_limit: dict[int, AtLimit] = field(default_factory=dict)
    """By the container's handle."""
    lately: deque[tuple[Seconds, int]] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))
    """What containers used that did not use up their limit."""
    newest: Seconds = NEVER
    last_starved: Seconds = NEVER

    def note(self, handle: int, millicores: int, instant: Seconds, at_limit: bool) -> None:
        """`millicores` is the limit if the container uses it up, else what it uses."""
        self.newest = max(self.newest, instant)
        if at_limit:
            self.last_starved = max(self.last_starved, instant)
            known = self.at_limit.get(handle)
            self.at_limit[handle] = AtLimit(millicores, known.since if known else instant, instant)
        else:
            self.at_limit.pop(handle, None)
            self.lately.append((instant, millicores))
        for old in [one for one, found in self.at_limit.items() if self.newest - found.last > GAP_S]:
            del self.at_limit[old]
        while self.lately and self.newest - self.lately[0][0] > LATELY_S:
            self.lately.popleft()

    def lower_bound(self, sustained: bool) -> int:
        """The highest limit that is used up now, or 0. `sustained`: only by containers that do so for a while."""
        wait = SUSTAINED_S if sustained else 0.0
        return max((one.millicores for one in self.at_limit.values() if one.last - one.since >= wait), default=0)

    def used_lately(self, percentile: float) -> int:
        amounts = sorted(amount for _, amount in self.lately)
        return amounts[max(0, math.ceil(percentile * len(amounts)) - 1)] if amounts else 0


@dataclass(frozen=True, slots=True)
class Need:
    """What starvation says about one container of an autoscaler, in millicores; 0 where it says nothing."""

    lower_bound: int = 0
    used_lately: int = 0


class Starvation:
    """All aggregates with containers that use up their limit, or did lately."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._in: dict[str, dict[AggregateKey, Starved]] = {}

    def note(self, key: AggregateKey, handle: int, millicores: int, instant: Seconds, at_limit: bool) -> bool:
        """Whether the aggregate is to be watched from now on."""
        known = self._in.get(key.namespace, {}).get(key)
        if known is None:
            if not at_limit:
                return False
            known = self._in.setdefault(key.namespace, {})[key] = Starved()
        known.note(handle, millicores, instant, at_limit)
        return True

    def needs(self, vpa: Vpa, sustained: bool) -> dict[str, Need]:
        """By container."""
        found: dict[str, Need] = {}
        for key, state in self._in.get(vpa.id[0], {}).items():
            if key in vpa.aggregates:
                before = found.get(key.container, Need())
                found[key.container] = Need(
                    max(before.lower_bound, state.lower_bound(sustained)),
                    max(before.used_lately, state.used_lately(self._config.target_cpu_percentile)),
                )
        return {name: need for name, need in found.items() if need != Need()}

    def forget(self, alive: Callable[[AggregateKey], bool]) -> None:
        """Drops what is gone, and what was last starved so long ago that the histogram has learned it."""
        learned = self._config.cpu_histogram_decay_half_life
        for namespace, states in list(self._in.items()):
            for key, state in list(states.items()):
                if not alive(key) or state.newest - state.last_starved > learned:
                    del states[key]
            if not states:
                del self._in[namespace]

    def __bool__(self) -> bool:
        return bool(self._in)


def raised(size: Estimate, need: Need, config: Config) -> Estimate:
    """An estimate that is at least what a starved container needs."""
    if "cpu" not in size.target:
        return size
    margin = config.recommendation_margin_fraction
    grown = with_margin(int(need.lower_bound * config.starvation_growth), margin)
    target = max(size.target["cpu"], grown, with_margin(need.used_lately, margin))
    lower = max(size.lower["cpu"], with_margin(need.lower_bound, margin) if need.lower_bound else 0)
    return Estimate(
        {**size.target, "cpu": target},
        {**size.lower, "cpu": min(lower, target)},
        {**size.upper, "cpu": max(size.upper["cpu"], target)},
    )
