"""From sizes decided hour by hour to the size in force at every sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import Floats, Series
from podfit.vpa.policies.learning.hours import Array

STEP = 0.05
"""Changes up to this part of the size are not worth counting."""


def hold(series: Series, decided: Array, at_once: NDArray[np.bool_], raised: float, drop: Array) -> Floats:
    """`decided` [container, hour] at the end of each hour is in force in the next one.

    A size rises to what was decided, and sinks by at most 5 % an hour, unless it has to sink by more than `drop`.
    Where `at_once` [container, hour] says so, a sample above the size raises it to `raised` times that sample.
    """
    per, (rows, samples) = series.hour, series.usage.shape
    out = np.full((rows, samples), np.nan, np.float32)
    size = np.full(rows, np.nan)
    for hour in range(1, -(-samples // per)):
        size = _next(size, decided[:, hour - 1], drop[:, hour - 1])
        begin, end = hour * per, min(samples, hour * per + per)
        out[:, begin:end] = size[:, None]
        used = series.usage[:, begin:end]
        above = at_once[:, hour - 1] & (np.where(np.isnan(used), -np.inf, used).max(1) > size)
        for row in np.flatnonzero(above):
            size[row] = _raise(out[row, begin:end], used[row], float(size[row]), raised)
    return out


def _next(size: Array, decided: Array, drop: Array) -> Array:
    ratio = decided / size
    slow = (ratio < 1 - STEP) & (ratio >= 1 - drop)
    fresh = np.where(slow, size * (1 - STEP * 0.999), decided)
    return np.where(np.isfinite(decided), fresh, size)


def _raise(out: Floats, used: Floats, size: float, raised: float) -> float:
    """Within one hour of one container; answers with the size at its end."""
    for at in range(len(used)):
        out[at] = size
        if used[at] > size:
            size = max(size, float(used[at]) * raised)
    return size
