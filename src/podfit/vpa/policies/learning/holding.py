"""Computes the size in force at every sample from sizes decided hour by hour."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import Floats, UsageSeries
from podfit.vpa.policies.learning.hours import Array

STEP = 0.05
"""Changes up to this fraction of the size do not count."""
BURST_MOST = 1.4
"""A bursty container's size is raised within an hour to at most this multiple of what it was at its beginning."""
Flags = NDArray[np.bool_]


def hold(series: UsageSeries, decided: Array, bursty: Flags, raised: float, drop: Array) -> Floats:
    """The sizes in force: `decided` [container, hour] at the end of each hour applies in the next one.

    A size rises to the decided one at once, and falls by at most 5 % an hour, unless the drop is more than `drop`. A
    sample above the size raises it at once to `raised` times that sample. Where `bursty` [container, hour] is set, only
    a second such sample in a row raises it, to the sample itself: a burst is mostly over by the next sample.
    """
    per, (rows, samples) = series.hour, series.usage.shape
    out = np.full((rows, samples), np.nan, np.float32)
    size = np.full(rows, np.nan)
    tops = _tops(series.usage, per)
    for hour in range(1, -(-samples // per)):
        size = _next(size, decided[:, hour - 1], drop[:, hour - 1])
        begin, end = hour * per, min(samples, hour * per + per)
        out[:, begin:end] = size[:, None]
        above = np.flatnonzero(tops[:, hour] > size)
        if len(above):
            part = series.usage[above, begin:end]
            out[above, begin:end], size[above] = _raise(part, size[above], raised, bursty[above, hour - 1])
    return out


def _tops(usage: Floats, per: int) -> Floats:
    """The maximum of every hour, including an incomplete last one."""
    low = np.where(np.isnan(usage), np.float32(-np.inf), usage)
    if not low.shape[1]:
        return low
    return np.asarray(np.maximum.reduceat(low, np.arange(0, low.shape[1], per), axis=1))


def _next(size: Array, decided: Array, drop: Array) -> Array:
    ratio = decided / size
    slow = (ratio < 1 - STEP) & (ratio >= 1 - drop)
    fresh = np.where(slow, size * (1 - STEP * 0.999), decided)
    return np.where(np.isfinite(decided), fresh, size)


def _raise(used: Floats, size: Array, raised: float, bursty: Flags) -> tuple[Floats, Array]:
    """The sizes at the samples of one hour, and at its end."""
    out = np.empty(used.shape, np.float32)
    needed = used.astype(np.float64)
    factor, most = np.where(bursty, 1.0, raised), np.where(bursty, BURST_MOST * size, np.inf)
    calm = ~bursty
    again = calm
    for at in range(used.shape[1]):
        out[:, at] = size
        now = needed[:, at]
        over = now > size
        size = np.where(over & again, np.maximum(size, np.minimum(now * factor, most)), size)
        again = calm | over
    return out, size
