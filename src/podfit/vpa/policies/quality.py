"""Scores sizes by comparing them with usage, sample by sample, after two days of warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import CHUNK, CPU, GIB, Costs, Floats, UsageSeries

WARM_DAYS = 2
CHANGE = 0.05
"""A change of the size counts if it is at least this fraction of the size."""
SUMS = ("sized", "served", "used", "samples", "short_samples", "days", "short_days", "changes", "scored")
"""The fields of `Quality` that are sums."""


@dataclass(frozen=True, slots=True)
class Quality:
    """The score of one container, or of all together. It consists of sums, so scores can be added."""

    resource: str
    sized: float
    """Size times samples: the capacity provided."""
    served: float
    """The usage within the size."""
    used: float
    samples: int
    short_samples: int
    days: int
    short_days: int
    changes: int
    scored: int
    """The number of samples that were taken with a size in force."""
    step_s: float

    @property
    def slack(self) -> float:
        """The fraction of the capacity that was idle."""
        return 1 - self.served / self.sized if self.sized else float("nan")

    @property
    def cut(self) -> float:
        """The fraction of the usage above the size, which would be throttled, or lead to an OOM kill."""
        return 1 - self.served / self.used if self.used else float("nan")

    @property
    def short(self) -> float:
        return self.short_samples / self.scored if self.scored else float("nan")

    @property
    def days_short(self) -> float:
        return self.short_days / self.days if self.days else float("nan")

    @property
    def changes_a_day(self) -> float:
        return self.changes / self.days if self.days else float("nan")

    @property
    def partial(self) -> bool:
        """Whether samples were taken without a size in force."""
        return self.scored < self.samples

    @property
    def idle_hours(self) -> float:
        """The idle core-hours or GiB-hours."""
        unit = 1.0 if self.resource == CPU else GIB
        return (self.sized - self.served) * self.step_s / 3600 / unit

    def cost(self, costs: Costs) -> float:
        """The idle core-hours or GiB-hours, plus the cost of shortages."""
        if self.resource == CPU:
            return self.idle_hours + costs.short * self.short_samples * self.step_s / 300
        return self.idle_hours + costs.oom_day * self.short_days

    def line(self) -> str:
        return (
            f"slack {self.slack:.2%} days short {self.days_short:.2%} samples short {self.short:.3%} "
            f"changes a day {self.changes_a_day:.2f}"
        )


def quality_of(series: UsageSeries, sizes: Floats) -> Quality:
    """The quality for all containers of a series together."""
    each = qualities_of(series, sizes)
    return total_of(each) if each else Quality(series.resource, 0, 0, 0, 0, 0, 0, 0, 0, 0, series.step_s)


def total_of(each: Sequence[Quality]) -> Quality:
    """The sum over at least one container; all have the same resource and step."""
    sums = {name: sum(getattr(quality, name) for quality in each) for name in SUMS}
    return Quality(resource=each[0].resource, step_s=each[0].step_s, **sums)


def qualities_of(series: UsageSeries, sizes: Floats) -> list[Quality]:
    """The quality for each container of a series."""
    found: list[Quality] = []
    for begin in range(0, len(sizes), CHUNK):
        found += _of_rows(series.rows(begin, begin + CHUNK), sizes[begin : begin + CHUNK])
    return found


def _of_rows(series: UsageSeries, sizes: Floats) -> list[Quality]:
    day = series.day
    begin = WARM_DAYS * day if series.usage.shape[1] > WARM_DAYS * day else 0
    used, size = series.usage[:, begin:], np.asarray(sizes[:, begin:], np.float32)
    known = ~np.isnan(used)
    scored = known & ~np.isnan(size)
    given, demand = np.where(scored, size, np.float32(0.0)), np.where(scored, used, np.float32(0.0))
    short = demand > given
    moved = np.abs(np.diff(size, axis=1)) > np.float32(CHANGE) * size[:, :-1]
    moved &= scored[:, 1:]
    columns = (
        given.sum(1, dtype=np.float64),
        np.minimum(demand, given).sum(1, dtype=np.float64),
        demand.sum(1, dtype=np.float64),
        *(np.count_nonzero(flags, axis=1) for flags in (known, short)),
        *(_days(flags, day) for flags in (scored, short)),
        *(np.count_nonzero(flags, axis=1) for flags in (moved, scored)),
    )
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    return [
        Quality(resource=series.resource, step_s=series.step_s, **dict(zip(SUMS, row, strict=True))) for row in rows
    ]


def _days(marked: NDArray[np.bool_], day: int) -> NDArray[np.int64]:
    """The number of days with a marked sample, for each container."""
    starts = np.arange(0, marked.shape[1], day)
    if not len(starts):
        return np.zeros(len(marked), np.int64)
    return np.asarray(np.logical_or.reduceat(marked, starts, axis=1).sum(1))
