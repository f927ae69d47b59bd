"""The borders of a histogram's buckets, and the bucket of a value.

CPU (in cores) and memory (in bytes) both use 176 buckets that grow by 5 %, so a size read from a histogram is at most 5
% too large. Schemes are equal if their numbers are: two histograms merge only if their schemes agree.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property

from podfit.vpa.recommender.decide.histograms.gomath import log, pow_

EPSILON = 0.001 * 0.1
"""Smaller weights count as zero: a thousandth of the weight of one CPU sample."""


@dataclass(frozen=True)
class BucketScheme(ABC):
    """`starts[n]` is the lower border of bucket n; the last bucket has no upper border."""

    epsilon: float
    starts: tuple[float, ...] = field(repr=False)

    @property
    def count(self) -> int:
        return len(self.starts)

    @abstractmethod
    def find(self, value: float) -> int:
        """The bucket of a value: the last bucket beyond the last border, the first one below zero."""

    def end(self, bucket: int) -> float:
        """The upper border of a bucket; for the last bucket its lower border."""
        return self.starts[min(bucket + 1, self.count - 1)]


@dataclass(frozen=True)
class LinearBuckets(BucketScheme):
    size: float = 0.0

    def find(self, value: float) -> int:
        quotient = value / self.size
        # Upstream's conversion to a whole number overflows to a negative one from 2**63 on.
        return min(int(quotient), self.count - 1) if 0 <= quotient < 2**63 else 0


@dataclass(frozen=True)
class ExponentialBuckets(BucketScheme):
    first: float = 0.0
    ratio: float = 0.0

    def find(self, value: float) -> int:
        if value < self.first:
            return 0
        bucket = int(log(value * (self.ratio - 1) / self.first + 1) / self._log_ratio)
        return min(bucket, self.count - 1)

    @cached_property
    def _log_ratio(self) -> float:
        return log(self.ratio)

    def first_whole_value(self, bucket: int, unit: float) -> int:
        """The smallest whole n for which `find(n / unit)` reaches the bucket. Unlike the bucket's start it is exact."""
        guess = int(self.starts[bucket] * unit)
        low, high = max(0, guess - 4096), guess + 4096
        return low + bisect_left(range(low, high), True, key=lambda n: self.find(n / unit) >= bucket)


def linear(maximum: float, size: float, epsilon: float) -> LinearBuckets:
    if maximum <= 0 or size <= 0 or epsilon <= 0:
        raise ValueError("maxValue and bucketSize must both be positive")
    count = math.ceil(maximum / size) + 1
    return LinearBuckets(epsilon, tuple(n * size for n in range(count)), size)


def exponential(maximum: float, first: float, ratio: float, epsilon: float) -> ExponentialBuckets:
    if maximum <= 0 or first <= 0 or ratio <= 1 or epsilon <= 0:
        raise ValueError("maxValue, firstBucketSize and epsilon must be > 0.0, ratio must be > 1.0")
    count = math.ceil(log(maximum * (ratio - 1) / first + 1) / log(ratio)) + 1
    starts = tuple(first * (pow_(ratio, n) - 1) / (ratio - 1) if n else 0.0 for n in range(count))
    return ExponentialBuckets(epsilon, starts, first, ratio)


CPU = exponential(1000.0, 0.01, 1.0 + 0.05, EPSILON)
MEMORY = exponential(1e12, 1e7, 1.0 + 0.05, EPSILON)
