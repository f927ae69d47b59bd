"""`default`: sizes as the Kubernetes autoscaler computes them with its flags' defaults.

It is the model of `vpa/recommender/decide`, for many containers at once and hour by hour: decaying histograms of CPU
samples and of the daily peaks of memory, the 90th percentile, a margin of 15 %, and the smallest pod. A memory sample
above the size is an out-of-memory kill, which counts at once as a peak that is 20 % (or 100 MiB) higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import CPU, Costs, Floats, UsageSeries
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms import buckets
from podfit.vpa.recommender.decide.histograms.aggregate import CPU_SAMPLE_WEIGHT, MEMORY_PEAK_WEIGHT
from podfit.vpa.recommender.decide.histograms.estimate import minimums
from podfit.vpa.recommender.decide.histograms.gomath import exp2

Array = NDArray[np.float64]
ROUNDING = 1e-3
"""Samples are whole millicores and bytes, rounded up; float32 does not hold them exactly."""


@cache
def _starts(resource: str) -> Array:
    """The smallest whole number of millicores or bytes in each bucket but the first."""
    scheme, unit = (buckets.CPU, 1000.0) if resource == CPU else (buckets.MEMORY, 1.0)
    assert isinstance(scheme, buckets.ExponentialBuckets)
    return np.array([scheme.first_whole_value(bucket, unit) for bucket in range(1, scheme.count)], np.float64)


@cache
def _ends(resource: str) -> Array:
    scheme = buckets.CPU if resource == CPU else buckets.MEMORY
    return np.array([scheme.end(bucket) for bucket in range(scheme.count)])


def whole(values: Floats) -> Array:
    """Millicores or bytes as the metrics API would report them."""
    return np.ceil(np.asarray(values, np.float64) - ROUNDING)


def _estimates(weights: Array, resource: str, fraction: float, config: Config) -> Array:
    """Sizes in millicores or bytes, with percentile, margin and minimum applied; NaN for an empty histogram."""
    taken = np.flatnonzero(weights.any(0))
    first, end = (int(taken[0]), int(taken[-1]) + 1) if len(taken) else (0, 1)
    reached = np.cumsum(weights[:, first:end], axis=1)
    total = reached[:, -1]
    bucket = first + np.argmax(reached >= (fraction * total)[:, None], axis=1)
    amount = np.floor(_ends(resource)[bucket] * (1000.0 if resource == CPU else 1.0))
    amount += np.floor(amount * config.recommendation_margin_fraction)
    return np.where(total > 0, np.maximum(amount, minimums(config, 1)[resource]), np.nan)


@dataclass(frozen=True, slots=True)
class Default:
    name: str = "default"
    config: Config = Config()  # noqa: RUF009

    def sizes(self, series: UsageSeries, costs: Costs) -> Floats:
        return self._cpu(series) if series.resource == CPU else self._memory(series)

    def _cpu(self, series: UsageSeries) -> Floats:
        rows, samples = series.usage.shape
        out = np.full((rows, samples), np.nan, np.float32)
        used = whole(series.usage * 1000.0)
        bucket = np.searchsorted(_starts(CPU), np.nan_to_num(used), side="right")
        weights, each = np.zeros((rows, len(_ends(CPU)))), np.arange(rows)
        for sample in range(samples):
            if sample and sample % series.hour == 0:
                sizes = _estimates(weights, CPU, self.config.target_cpu_percentile, self.config) / 1000.0
                out[:, sample : sample + series.hour] = sizes[:, None]
            growth = exp2(sample * series.step_s / self.config.cpu_histogram_decay_half_life)
            weights[each, bucket[:, sample]] += np.where(np.isnan(used[:, sample]), 0.0, CPU_SAMPLE_WEIGHT * growth)
        return out

    def _memory(self, series: UsageSeries) -> Floats:
        rows, samples = series.usage.shape
        out = np.full((rows, samples), np.nan, np.float32)
        used = whole(series.usage)
        peaks = _Peaks(rows, self.config)
        size = np.full(rows, np.nan)
        for sample in range(samples):
            if sample and sample % series.hour == 0:
                size = peaks.sizes()
            out[:, sample] = size
            peaks.add(used[:, sample], sample * series.step_s)
            killed = series.usage[:, sample] > out[:, sample]
            if killed.any():
                peaks.kill(killed, size)
                size = np.where(killed, peaks.sizes(), size)
        return out


class _Peaks:
    """Daily peaks of memory. Those of finished windows are in the histogram, that of the current one is kept
    separately."""

    def __init__(self, rows: int, config: Config) -> None:
        self.config = config
        self.weights = np.zeros((rows, len(_ends("memory"))))
        self.each = np.arange(rows)
        self.end = np.full(rows, np.nan)
        self.used, self.oom = np.zeros(rows), np.zeros(rows)

    @property
    def peak(self) -> Array:
        return np.maximum(self.used, self.oom)

    def add(self, used: Array, instant: float) -> None:
        known = ~np.isnan(used)
        interval = float(self.config.memory_aggregation_interval)
        self.end = np.where(known & np.isnan(self.end), instant, self.end)
        over = known & (instant >= self.end)
        if over.any():
            self._enter(self.weights, over)
            later = self.end + (instant - self.end) // interval * interval + interval
            self.end = np.where(over, later, self.end)
            self.used, self.oom = np.where(over, 0.0, self.used), np.where(over, 0.0, self.oom)
        self.used = np.where(known, np.fmax(self.used, used), self.used)

    def kill(self, killed: NDArray[np.bool_], size: Array) -> None:
        had = np.fmax(whole(size), self.used)
        config = self.config
        needed = np.maximum(had + np.floor(config.oom_min_bump_up_bytes), np.floor(had * config.oom_bump_up_ratio))
        self.oom = np.where(killed, np.maximum(self.oom, needed), self.oom)

    def sizes(self) -> Array:
        weights = self.weights.copy()
        self._enter(weights, ~np.isnan(self.end))
        return _estimates(weights, "memory", self.config.target_memory_percentile, self.config)

    def _enter(self, weights: Array, rows: NDArray[np.bool_]) -> None:
        peak = self.peak
        bucket = np.searchsorted(_starts("memory"), peak, side="right")
        growth = np.exp2(np.nan_to_num(self.end) / self.config.memory_histogram_decay_half_life)
        weights[self.each, bucket] += np.where(rows & (peak > 0), MEMORY_PEAK_WEIGHT * growth, 0.0)


DEFAULT = Default()
