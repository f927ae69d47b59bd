"""How good sizes were: compared with what was used, sample by sample, after two days of warming up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podfit.vpa.policies.base import CPU, GIB, Costs, Floats, Series

WARM_DAYS = 2
CHANGE = 0.05
"""A change of the size counts from this part of it."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Of one container, or of all together; sums, so that they can be added."""

    resource: str
    sized: float
    """Size times samples: the capacity that was given."""
    served: float
    """What of the usage was within the size."""
    used: float
    samples: int
    short_samples: int
    days: int
    short_days: int
    changes: int
    scored: int
    """Samples that had a size, of `samples`."""
    step_s: float

    @property
    def slack(self) -> float:
        """The part of the capacity that lay idle."""
        return 1 - self.served / self.sized if self.sized else float("nan")

    @property
    def cut(self) -> float:
        """The part of the usage that the size did not hold: throttled, or killed for."""
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
        """Some samples were taken while no size was in force."""
        return self.scored < self.samples

    @property
    def idle_hours(self) -> float:
        """Core-hours or GiB-hours that lay idle."""
        unit = 1.0 if self.resource == CPU else GIB
        return (self.sized - self.served) * self.step_s / 3600 / unit

    def cost(self, costs: Costs) -> float:
        """Idle core-hours or GiB-hours, and what being short is worth."""
        if self.resource == CPU:
            return self.idle_hours + costs.short * self.short_samples * self.step_s / 300
        return self.idle_hours + costs.oom_day * self.short_days

    def line(self) -> str:
        return (
            f"slack {self.slack:.2%} days short {self.days_short:.2%} samples short {self.short:.3%} "
            f"changes a day {self.changes_a_day:.2f}"
        )


def quality_of(series: Series, sizes: Floats) -> Quality:
    """All containers of a series together."""
    day = series.day
    begin = WARM_DAYS * day if series.usage.shape[1] > WARM_DAYS * day else 0
    used, size = series.usage[:, begin:].astype(np.float64), sizes[:, begin:].astype(np.float64)
    known = ~np.isnan(used)
    scored = known & ~np.isnan(size)
    short = scored & (used > size)
    moved = np.abs(np.diff(size, axis=1)) > CHANGE * size[:, :-1]
    return Quality(
        series.resource,
        float(np.where(scored, size, 0.0).sum()),
        float(np.where(scored, np.minimum(used, size), 0.0).sum()),
        float(np.where(scored, used, 0.0).sum()),
        int(known.sum()),
        int(short.sum()),
        _days(scored, day),
        _days(short, day),
        int((moved & scored[:, 1:]).sum()),
        int(scored.sum()),
        series.step_s,
    )


def _days(marked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], day: int) -> int:
    """Days of containers in which a sample is marked."""
    rows, samples = marked.shape
    padded = np.zeros((rows, -(-samples // day) * day), bool)
    padded[:, :samples] = marked
    return int(padded.reshape(rows, -1, day).any(2).sum())
