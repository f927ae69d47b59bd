"""Detects containers that use up their CPU limit: their usage is a lower bound of their demand.

Such a container's samples do not show its demand, so its recommendation grows in large steps until it no longer uses up
its limit. From then on its recent usage counts, until the histogram, which is slow, has caught up. If a container
reaches its limit in bursts but uses less on average, no sample shows its demand: its recommendation grows in small
steps until its bursts are no longer throttled, and then stays. No clock and no I/O: instants are those of samples.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from podfit.vpa.model.objects.policy import container_policy, controls_limits
from podfit.vpa.model.times import NEVER, Seconds
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, with_margin

GAP_S = 150.0
"""A container that has not reported for this long, while others have, no longer counts as starved."""
LATELY_S = 3600.0
SUSTAINED_S = 240.0
"""How long a container must be starved before it is evicted: a pod that restarts often uses up its limit."""
MOST_SAMPLES = 2048


class LimitSample(NamedTuple):
    """One container's usage in millicores, its limit, and its request (its limit if it has no request)."""

    handle: int
    instant: Seconds
    used: int
    limit: int = 0
    given: int = 0
    at_limit: bool = False
    throttled: bool = False
    """Whether it uses less than its limit on average, but reaches it in many periods."""


@dataclass(slots=True)
class Since:
    """A starved container: the amount that does not suffice, and since when."""

    millicores: int
    since: Seconds
    last: Seconds

    @property
    def sustained(self) -> bool:
        return self.last - self.since >= SUSTAINED_S


@dataclass(slots=True)
class Starved:
    """The starved containers of one aggregate."""

    at_limit: dict[int, Since] = field(default_factory=dict)
    """The containers that use up their limit, by handle."""
    throttled: dict[int, Since] = field(default_factory=dict)
    """The containers whose bursts are throttled, by handle. The amount is the request, which limits follow."""
    lately: deque[tuple[Seconds, int]] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))
    """The usage of containers that did not use up their limit."""
    too_little: int = 0
    """The highest request at which bursts were throttled for a while."""
    sufficed: int = 0
    """The lowest request above that at which bursts were not throttled; 0 if there is none."""
    newest: Seconds = NEVER
    last_starved: Seconds = NEVER
    used_up: bool = False
    """Whether a limit was ever used up."""

    def note(self, sample: LimitSample) -> None:
        self.newest = max(self.newest, sample.instant)
        if sample.at_limit or sample.throttled:
            self.last_starved = max(self.last_starved, sample.instant)
        self._put(self.at_limit, sample, sample.limit if sample.at_limit else 0)
        self._put(self.throttled, sample, sample.given if sample.throttled else 0)
        self.used_up |= sample.at_limit
        if not sample.at_limit:
            self.lately.append((sample.instant, sample.used))
        while self.lately and self.newest - self.lately[0][0] > LATELY_S:
            self.lately.popleft()
        self._note_bursts(sample)

    def _put(self, states: dict[int, Since], sample: LimitSample, millicores: int) -> None:
        known = states.pop(sample.handle, None)
        if millicores:
            states[sample.handle] = Since(millicores, known.since if known else sample.instant, sample.instant)
        for old in [key for key, found in states.items() if self.newest - found.last > GAP_S]:
            del states[old]

    def _note_bursts(self, sample: LimitSample) -> None:
        self.too_little = max(self.too_little, self.bursts())
        if self.sufficed <= self.too_little:
            self.sufficed = 0
        quiet = not sample.at_limit and not sample.throttled
        if quiet and self.too_little and sample.given > self.too_little:
            self.sufficed = min(self.sufficed or sample.given, sample.given)

    def lower_bound(self, sustained: bool) -> int:
        """The highest limit that is currently used up, or 0. With `sustained`, only containers that have used it up for
        a while count."""
        found = [evidence.millicores for evidence in self.at_limit.values() if evidence.sustained or not sustained]
        return max(found, default=0)

    def bursts(self) -> int:
        """The highest request among containers whose bursts have been throttled for a while, or 0."""
        return max((evidence.millicores for evidence in self.throttled.values() if evidence.sustained), default=0)

    def used_lately(self, percentile: float) -> int:
        if not self.used_up:
            return 0
        amounts = sorted(amount for _, amount in self.lately)
        return amounts[max(0, math.ceil(percentile * len(amounts)) - 1)] if amounts else 0


@dataclass(frozen=True, slots=True)
class Need:
    """Starvation of one container of an autoscaler, in millicores; 0 if there is none."""

    lower_bound: int = 0
    """The limit that is used up; 0 if there is none."""
    used_lately: int = 0
    bursts: int = 0
    """The request at which bursts are throttled; 0 if there is none."""
    sufficed: int = 0
    """The request at which bursts are no longer throttled; 0 if there is none."""

    def __or__(self, other: Need) -> Need:
        bound, lately = max(self.lower_bound, other.lower_bound), max(self.used_lately, other.used_lately)
        return Need(bound, lately, max(self.bursts, other.bursts), max(self.sufficed, other.sufficed))


class Starvation:
    """All aggregates with containers that use up their limit, or did so recently."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._in: dict[str, dict[AggregateKey, Starved]] = {}

    def note(self, key: AggregateKey, sample: LimitSample) -> bool:
        """Records a sample; returns whether the aggregate has to be tracked."""
        known = self._in.get(key.namespace, {}).get(key)
        if known is None:
            if not sample.at_limit and not sample.throttled:
                return False
            known = self._in.setdefault(key.namespace, {})[key] = Starved()
        known.note(sample)
        return True

    def needs(self, vpa: Vpa, sustained: bool) -> dict[str, Need]:
        """The needs of an autoscaler's starved containers."""
        found: dict[str, Need] = {}
        for key, state in self._in.get(vpa.id[0], {}).items():
            if key in vpa.aggregates:
                need = Need(state.lower_bound(sustained), state.used_lately(self._config.target_cpu_percentile))
                if controls_limits(container_policy(vpa.object, key.container)):
                    # If the policy does not change limits, a larger request does not help bursts.
                    need = replace(need, bursts=state.bursts(), sufficed=state.sufficed)
                found[key.container] = found.get(key.container, Need()) | need
        return {name: need for name, need in found.items() if need != Need()}

    def forget(self, alive: Callable[[AggregateKey], bool]) -> None:
        """Drops deleted containers, and those whose starvation ended so long ago that the histogram has caught up."""
        learned = self._config.cpu_histogram_decay_half_life
        for namespace, states in list(self._in.items()):
            for key, state in list(states.items()):
                if not alive(key) or state.newest - state.last_starved > learned:
                    del states[key]
            if not states:
                del self._in[namespace]

    def begun_after(self, instant: Seconds) -> bool:
        """Whether a container that uses up its limit began to do so after this instant."""
        found = (state for states in self._in.values() for state in states.values())
        return any(evidence.since > instant for state in found for evidence in state.at_limit.values())

    def __bool__(self) -> bool:
        return bool(self._in)


def raised(size: Estimate, need: Need, config: Config) -> Estimate:
    """An estimate, raised to the need of a starved container."""
    if "cpu" not in size.target:
        return size
    margin = config.recommendation_margin_fraction
    grown = max(int(need.lower_bound * config.starvation_growth), int(need.bursts * config.throttled_growth))
    lately = max(with_margin(need.used_lately, margin), need.sufficed)
    target = max(size.target["cpu"], with_margin(grown, margin), lately)
    lower = max(size.lower["cpu"], with_margin(max(need.lower_bound, need.bursts), margin))
    return Estimate(
        {**size.target, "cpu": target},
        {**size.lower, "cpu": min(lower, target)},
        {**size.upper, "cpu": max(size.upper["cpu"], target)},
    )
