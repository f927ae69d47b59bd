"""`krr`: the published rule of the tool of that name, applied every hour.

CPU: the 95th percentile of all samples so far. Memory: their maximum plus 15 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podfit.vpa.policies.base import CPU, Costs, Floats, UsageSeries


@dataclass(frozen=True, slots=True)
class Krr:
    name: str = "krr"
    percentile: float = 0.95
    margin: float = 0.15

    def sizes(self, series: UsageSeries, costs: Costs) -> Floats:
        decided = self._cpu(series) if series.resource == CPU else self._memory(series)
        out = np.full(series.usage.shape, np.nan, np.float32)
        rest = out[:, series.hour :]
        rest[:] = np.repeat(decided, series.hour, axis=1)[:, : rest.shape[1]]
        return out

    def _memory(self, series: UsageSeries) -> Floats:
        """Sizes [container, hour], decided at the end of each hour."""
        low = np.where(np.isnan(series.usage), -np.inf, series.usage)
        top = np.maximum.accumulate(low, axis=1)[:, series.hour - 1 :: series.hour]
        return np.where(np.isfinite(top), top * (1 + self.margin), np.nan)

    def _cpu(self, series: UsageSeries) -> Floats:
        """Sizes [container, hour]. Of all samples only the largest ones are kept, as many as the percentile of the
        whole series needs."""
        rows, samples = series.usage.shape
        keep = int(np.ceil((1 - self.percentile) * samples)) + 2
        largest = np.full((rows, keep), -np.inf, np.float32)
        count = np.zeros(rows)
        found = []
        for begin in range(0, samples - series.hour + 1, series.hour):
            part = series.usage[:, begin : begin + series.hour]
            known = ~np.isnan(part)
            count += known.sum(1)
            both = np.concatenate([largest, np.where(known, part, -np.inf)], axis=1)
            largest = np.sort(both, axis=1)[:, -keep:]
            found.append(_interpolated(largest, count, self.percentile))
        return np.stack(found, axis=1) if found else np.zeros((rows, 0))


def _interpolated(rising: Floats, count: Floats, percentile: float) -> Floats:
    """The percentile of `count` samples, given the largest ones in ascending order."""
    place = percentile * (count - 1)
    below = np.floor(place)
    from_top = np.maximum(count - 1 - below, 0).astype(int)
    each, last = np.arange(len(rising)), rising.shape[1] - 1
    low = rising[each, np.maximum(last - from_top, 0)]
    high = rising[each, np.minimum(np.maximum(last - from_top + 1, 0), last)]
    low, high = (np.where(count > 0, values, 0.0) for values in (low, high))
    return np.where(count > 0, low + (high - low) * (place - below), np.nan)


KRR = Krr()
