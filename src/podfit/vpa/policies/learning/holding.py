"""From sizes decided hour by hour to the size in force at every sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import Floats, Series
from podfit.vpa.policies.learning.hours import Array

STEP = 0.05
"""Changes up to this fraction of the size do not count."""


def hold(series: Series, decided: Array, at_once: NDArray[np.bool_], raised: float, drop: Array) -> Floats:
    """`decided` [container, hour] at the end of each hour is in force in the next one.

    A size rises to the decided one, and falls by at most 5 % an hour, unless the drop is more than `drop`. Where
    `at_once` [container, hour] is set, a sample above the size raises it to `raised` times that sample.
    """
    per, (rows, samples) = series.hour, series.usage.shape
    out = np.full((rows, samples), np.nan, np.float32)
    size = np.full(rows, np.nan)
    tops = _tops(series.usage, per)
    for hour in range(1, -(-samples // per)):
        size = _next(size, decided[:, hour - 1], drop[:, hour - 1])
        begin, end = hour * per, min(samples, hour * per + per)
        out[:, begin:end] = size[:, None]
        above = np.flatnonzero(at_once[:, hour - 1] & (tops[:, hour] > size))
        if len(above):
            out[above, begin:end], size[above] = _raise(series.usage[above, begin:end], size[above], raised)
    return out


def _tops(usage: Floats, per: int) -> Floats:
    """The maximum of every hour, the last one even if it is not whole."""
    low = np.where(np.isnan(usage), np.float32(-np.inf), usage)
    if not low.shape[1]:
        return low
    return np.asarray(np.maximum.reduceat(low, np.arange(0, low.shape[1], per), axis=1))


def _next(size: Array, decided: Array, drop: Array) -> Array:
    ratio = decided / size
    slow = (ratio < 1 - STEP) & (ratio >= 1 - drop)
    fresh = np.where(slow, size * (1 - STEP * 0.999), decided)
    return np.where(np.isfinite(decided), fresh, size)


def _raise(used: Floats, size: Array, raised: float) -> tuple[Floats, Array]:
    """Within one hour: the sizes at its samples, and at its end."""
    out = np.empty(used.shape, np.float32)
    needed = used.astype(np.float64)
    for at in range(used.shape[1]):
        out[:, at] = size
        now = needed[:, at]
        size = np.where(now > size, np.maximum(size, now * raised), size)
    return out, size
