"""Counts out-of-memory kills from counters, whose values also include kills from before the history. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from podfit.vpa.model.times import Seconds

MOST = 1000
"""A counter that rises by more between two samples is wrong: restarts are delayed, so that many kills take days."""
Who = TypeVar("Who", bound=Hashable)
Points = Sequence[tuple[Seconds, float]]


class KillCounters(Generic[Who]):
    def __init__(self, last: Mapping[Who, float] | None = None, begins: Seconds | None = None) -> None:
        self.last: dict[Who, float] = dict(last or {})
        """The last value of each counter."""
        self.begins = begins
        """The first sample of the history, or the first one after a gap."""

    def copy(self) -> KillCounters[Who]:
        return KillCounters(self.last, self.begins)

    def sampled(self, at: Seconds) -> None:
        """Reports the first sample of a part; parts come in order of time."""
        if self.begins is None:
            self.begins = at

    def gap(self) -> None:
        """Reports a part that could not be read: what counters that are not known yet had before is unknown."""
        self.begins = None

    def rises(self, who: Who, points: Points) -> list[Seconds]:
        """The times at which a counter rose, once for each kill. A value at the beginning counts earlier kills. A
        counter that falls was reset."""
        found: list[Seconds] = []
        for at, value in points:
            if not math.isfinite(value):
                continue
            known = self.last.get(who)
            before = known if known is not None else (value if self.begins is None or at <= self.begins else 0.0)
            rise = int(value - before if value >= before else value)
            found += [at] * rise if rise <= MOST else []
            self.last[who] = value
        return found
