"""Usage hour by hour, the input of the experts. Every hour is complete before anything is decided from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import CPU, UsageSeries

Array = NDArray[np.float64]
FLOOR = {CPU: 0.02, "memory": 2.0**20}
"""Smaller values count as these: 20 millicores, 1 MiB."""
RANKS = (0, 1, 3, 6)
RANK_WEIGHTS = (1, 2, 3, 6)
"""Of twelve samples in descending order: the ranks that are read, and how many samples each stands for."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Usage by hour [container, hour]; NaN where an hour has no sample."""

    top: Array
    mean: Array
    least: Array
    last: Array
    half: Array
    """The maximum of the second half of the hour."""
    quarter: Array
    spread: Array
    """The standard deviation of the hour's samples."""
    ranked: tuple[Array, ...]
    """The samples of the hour in falling order, at `RANKS`."""
    known: NDArray[np.bool_]

    def rows(self, chosen: NDArray[np.bool_]) -> Hours:
        arrays = (self.top, self.mean, self.least, self.last, self.half, self.quarter, self.spread)
        top, mean, least, last, half, quarter, spread = (array[chosen] for array in arrays)
        ranked = tuple(array[chosen] for array in self.ranked)
        return Hours(top, mean, least, last, half, quarter, spread, ranked, self.known[chosen])


def hours_of(series: UsageSeries) -> Hours:
    """Groups samples by hour; only complete hours are included."""
    per = series.hour
    whole = series.usage.shape[1] // per
    used = series.usage[:, : whole * per].astype(np.float64).reshape(len(series.usage), whole, per)
    used = np.maximum(used, FLOOR[series.resource])
    absent = np.isnan(used)
    known = np.asarray(~absent.all(2))
    count = np.maximum(per - absent.sum(2), 1)
    mean = np.where(absent, 0.0, used).sum(2) / count
    away = np.where(absent, 0.0, used - mean[:, :, None])
    square = np.multiply(away, away, out=away).sum(2) / count
    low = np.where(absent, -np.inf, used)
    rising = np.sort(low, axis=2)
    ranks = tuple(rising[:, :, -1 - min(rank * per // 12, per - 1)] for rank in RANKS)
    least = np.take_along_axis(rising, np.minimum(per - count, per - 1)[:, :, None], 2)[:, :, 0]

    def clean(values: Array) -> Array:
        return np.where(known & np.isfinite(values), values, np.nan)

    return Hours(
        clean(rising[:, :, -1]),
        clean(mean),
        clean(least),
        clean(used[:, :, -1]),
        clean(low[:, :, per // 2 :].max(2)),
        clean(low[:, :, 3 * per // 4 :].max(2)),
        clean(np.sqrt(square)),
        ranks,
        known,
    )


def shifted(values: Array, hours: int) -> Array:
    """The values of this many hours ago; NaN before the first hour."""
    out = np.full_like(values, np.nan)
    if hours < values.shape[1]:
        out[:, hours:] = values[:, : values.shape[1] - hours]
    return out


def filled(values: Array) -> Array:
    """Fills gaps with the last known value."""
    at = np.where(np.isnan(values), 0, np.arange(values.shape[1]))
    return np.take_along_axis(values, np.maximum.accumulate(at, 1), 1)


def instead(values: Array, other: Array | float) -> Array:
    return np.where(np.isfinite(values), values, other)


def recent_max(values: Array, hours: int) -> Array:
    """The maximum of the last hours, the current one included; -inf if none is known."""
    out = np.where(np.isnan(values), -np.inf, values)
    have = 1
    while have < min(hours, values.shape[1]):
        more = min(have, hours - have)
        out[:, more:] = np.maximum(out[:, more:], out[:, :-more])
        have += more
    return out


def recent_mean(values: Array, hours: int) -> Array:
    """The mean of the known values of the last hours; 0 if there are none."""
    return recent_means(values, hours)[0]


def recent_means(values: Array, *spans: int) -> list[Array]:
    """The means of the known values of the last hours, for several spans of hours."""
    known = ~np.isnan(values)
    total, count = np.cumsum(np.where(known, values, 0.0), 1), np.cumsum(known, 1, dtype=np.float64)
    return [_last(total, hours) / np.maximum(_last(count, hours), 1.0) for hours in spans]


def _last(total: Array, hours: int) -> Array:
    """The amount that the last hours added to a running total."""
    out = total.copy()
    if hours < out.shape[1]:
        out[:, hours:] -= total[:, :-hours]
    return out


def steady_mean(hours: Hours, span: int) -> Array:
    """The mean of the last hours; during a gap its last known value."""
    known = recent_max(np.where(hours.known, 1.0, 0.0), span) > 0
    return filled(np.where(known, recent_mean(hours.mean, span), np.nan))
