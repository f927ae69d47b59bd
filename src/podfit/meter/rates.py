"""Computes current usage from cumulative counters. Pure.

The rate is the difference between two readings of the same run of a container. If a counter fell or the start time
changed, measuring starts over; a container younger than one scrape interval is measured from its start. Readings that
are older than the last one are dropped, unless the node's clock was set back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from podfit.api.numbers import Key, NodeReading, Numbers, Reading

_SHORTEST_S = 0.5
"""Readings closer together than this give no meaningful rate."""
_SET_BACK_S = 60.0


class Use(NamedTuple):
    cores: float
    memory_bytes: float
    at: float
    window_s: float
    throttled: float = 0.0
    """The fraction of periods in which the container was throttled; 0 if the node does not report it."""


def use_of(before: Reading | None, after: Reading, fresh_s: float) -> Use | None:
    """The usage between two readings; None while it is unknown."""
    if before is not None and same_run(before, after):
        passed = after.at - before.at
        if passed >= _SHORTEST_S:
            cores = (after.cpu_s - before.cpu_s) / passed
            return Use(cores, after.memory_bytes, after.at, passed, _throttled(before, after))
        return None
    lived = after.at - after.started
    if after.started > 0 and _SHORTEST_S <= lived <= fresh_s:
        return Use(after.cpu_s / lived, after.memory_bytes, after.at, lived, _throttled(None, after))
    return None


def _throttled(before: Reading | None, after: Reading) -> float:
    """The fraction of periods since `before`, or since the start, in which the container was throttled."""
    periods = after.periods - (before.periods if before is not None else 0.0)
    throttled = after.throttled_periods - (before.throttled_periods if before is not None else 0.0)
    # A limit that is set again may begin to count from zero.
    return min(1.0, throttled / periods) if periods > 0 and throttled > 0 else 0.0


def same_run(before: Reading, after: Reading) -> bool:
    restarted = before.started and after.started and abs(after.started - before.started) > 0.001
    return not restarted and after.cpu_s >= before.cpu_s


def out_of_order(before: Reading, after: Reading) -> bool:
    """Whether a reading repeats the last one or is older. After the clock was set back, older readings are accepted."""
    return before.at - _SET_BACK_S < after.at <= before.at and same_run(before, after)


@dataclass(slots=True)
class NodeRates:
    """The last readings of a node and the values derived from them."""

    fresh_s: float
    scrapes: int = 0
    node: Use | None = None
    containers: dict[Key, Use] = field(default_factory=dict)
    placed: Mapping[tuple[str, str], Sequence[Key]] = field(default_factory=dict)
    """The containers by pod. It is replaced, never modified, when they change."""
    oom_ends: Mapping[Key, int] = field(default_factory=dict)
    _node_last: Reading | None = None
    _last: dict[Key, Reading] = field(default_factory=dict)

    def take(self, reading: NodeReading) -> list[Key]:
        """Adds a scrape; returns the containers with new values."""
        self.scrapes += 1
        self.oom_ends = reading.oom_ends
        if reading.node is not None:
            before = self._node_last
            if before is None or not out_of_order(before, reading.node):
                self.node = use_of(before, reading.node, 0.0) or self.node
                self._node_last = reading.node
        news: list[Key] = []
        last: dict[Key, Reading] = {}
        uses: dict[Key, Use] = {}
        for key, after in reading.containers.items():
            earlier = self._last.get(key)
            known = self.containers.get(key)
            if earlier is not None and out_of_order(earlier, after):
                last[key] = earlier
                if known is not None:
                    uses[key] = known
                continue
            last[key] = after
            use = use_of(earlier, after, self.fresh_s)
            if use is not None:
                uses[key] = use
                news.append(key)
            elif known is not None and earlier is not None and same_run(earlier, after):
                uses[key] = known
        if uses.keys() != self.containers.keys():
            self.placed = by_pod(uses)
        self._last, self.containers = last, uses
        return news

    def pod(self, namespace: str, name: str) -> dict[str, Use]:
        """The usage of a pod by container."""
        return {key[2]: self.containers[key] for key in self.placed.get((namespace, name), ())}

    def collect(self, keys: Sequence[Key], into: Numbers) -> None:
        """Adds the usage of one pod's containers to the columns."""
        uses = [self.containers[key] for key in keys]
        first = min(uses, key=lambda use: use.at)
        for key, use in zip(keys, uses, strict=True):
            into.add(key, first.at, use.cores, use.memory_bytes, use.throttled, first.window_s)

    @property
    def settled(self) -> bool:
        """Whether a rate is known for everything that was read."""
        node_known = self._node_last is None or self.node is not None
        return self.scrapes > 0 and node_known and len(self.containers) == len(self._last)


def by_pod(keys: Iterable[Key]) -> dict[tuple[str, str], list[Key]]:
    found: dict[tuple[str, str], list[Key]] = {}
    for key in keys:
        found.setdefault(key[:2], []).append(key)
    return found
