"""One decaying histogram, written for clarity: the reference that the matrix engine must equal.

A sample that is younger by one half-life has twice the weight, so old samples fade without being changed. Weights are
relative to a reference instant, which is moved forward before the numbers exceed the range of a double.
"""

from __future__ import annotations

import math

from podfit.vpa.model.times import NEVER, Seconds, elapsed, nearest_multiple
from podfit.vpa.recommender.decide.histograms.buckets import BucketScheme
from podfit.vpa.recommender.decide.histograms.gomath import exp2

MAX_DOUBLINGS = 100
"""The reference instant moves once a sample is this many half-lives ahead of it."""


class Histogram:
    """Weights by bucket; `low` and `high` are the outermost buckets that count."""

    __slots__ = ("high", "low", "scheme", "total", "weights")

    def __init__(self, scheme: BucketScheme) -> None:
        self.scheme = scheme
        self.weights = [0.0] * scheme.count
        self.total = 0.0
        self.low = scheme.count - 1
        self.high = 0

    def add(self, value: float, weight: float, instant: Seconds = NEVER) -> None:
        if weight < 0:
            raise ValueError("sample weight must be non-negative")
        bucket = self.scheme.find(value)
        self.weights[bucket] += weight
        self.total += weight
        if self.weights[bucket] >= self.scheme.epsilon:
            self.low = min(self.low, bucket)
            self.high = max(self.high, bucket)

    def subtract(self, value: float, weight: float, instant: Seconds = NEVER) -> None:
        """Subtracts a sample; values below epsilon become zero."""
        if weight < 0:
            raise ValueError("sample weight must be non-negative")
        bucket = self.scheme.find(value)
        self.weights[bucket] = self._less(self.weights[bucket], weight)
        self.total = self._less(self.total, weight)
        self._narrow()

    def merge(self, other: Histogram) -> None:
        if self.scheme != other.scheme:
            raise ValueError("can't merge histograms with different options")
        for bucket in range(other.low, other.high + 1):
            self.weights[bucket] += other.weights[bucket]
        self.total += other.total
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    def percentile(self, fraction: float) -> float:
        """The upper border of the bucket at which this fraction of the weight is reached; 0 for an empty histogram."""
        if self.empty:
            return 0.0
        threshold = fraction * self.total
        reached = 0.0
        bucket = self.low
        while bucket < self.high:
            reached += self.weights[bucket]
            if reached >= threshold:
                break
            bucket += 1
        return self.scheme.end(bucket)

    @property
    def empty(self) -> bool:
        return self.weights[self.low] < self.scheme.epsilon

    def equals(self, other: Histogram) -> bool:
        """Whether the borders are equal and, in the buckets that count, the weights are equal up to rounding."""
        if type(self) is not type(other) or self.scheme != other.scheme:
            return False
        if (self.low, self.high) != (other.low, other.high):
            return False
        inside = range(self.low, self.high + 1)
        return all(abs(self.weights[bucket] - other.weights[bucket]) <= 1e-15 for bucket in inside)

    def describe(self) -> str:
        """A readable table of percentiles."""
        lines = [f"minBucket: {self.low}, maxBucket: {self.high}, totalWeight: {self.total:.3f}", "%-tile\tvalue"]
        lines += [f"{percent}\t{self.percentile(0.01 * percent):.3f}" for percent in range(0, 101, 5)]
        return "\n".join(lines)

    def scale(self, factor: float) -> None:
        """Multiplies the weights of buckets that count. As in upstream, residues outside of them stay below epsilon."""
        for bucket in range(self.low, self.high + 1):
            self.weights[bucket] *= factor
        self.total *= factor
        self._narrow()

    def load_weights(self, weights: dict[int, float], total: float) -> None:
        """Adds saved weights, which are given relative to each other."""
        whole = sum(weights.values())
        if whole == 0:
            return
        ratio = total / whole
        for bucket, weight in weights.items():
            self.low = min(self.low, bucket)
            self.high = max(self.high, bucket)
            self.weights[bucket] += weight * ratio
        self.total += total
        self._narrow()

    def _less(self, weight: float, taken: float) -> float:
        rest = weight - taken
        return 0.0 if rest < self.scheme.epsilon else rest

    def _narrow(self) -> None:
        epsilon, last = self.scheme.epsilon, self.scheme.count - 1
        while self.low < last and self.weights[self.low] < epsilon:
            self.low += 1
        while self.high > 0 and self.weights[self.high] < epsilon:
            self.high -= 1


class DecayingHistogram(Histogram):
    __slots__ = ("half_life", "reference")

    def __init__(self, scheme: BucketScheme, half_life: Seconds) -> None:
        super().__init__(scheme)
        self.half_life = half_life
        self.reference: Seconds = NEVER

    def add(self, value: float, weight: float, instant: Seconds = NEVER) -> None:
        super().add(value, weight * self._growth(instant))

    def subtract(self, value: float, weight: float, instant: Seconds = NEVER) -> None:
        super().subtract(value, weight * self._growth(instant))

    def merge(self, other: Histogram) -> None:
        """Adds the other histogram. The older reference is moved first, even if it is the other's."""
        if isinstance(other, DecayingHistogram):
            if self.half_life != other.half_life:
                raise ValueError("can't merge decaying histograms with different half life periods")
            if self.reference < other.reference:
                self.move_reference(other.reference)
            elif other.reference < self.reference:
                other.move_reference(self.reference)
        super().merge(other)

    def equals(self, other: Histogram) -> bool:
        return (
            isinstance(other, DecayingHistogram)
            and (self.half_life, self.reference) == (other.half_life, other.reference)
            and super().equals(other)
        )

    def describe(self) -> str:
        return f"referenceTimestamp: {self.reference}, halfLife: {self.half_life}\n{super().describe()}"

    def move_reference(self, instant: Seconds) -> None:
        """Expresses all weights relative to the multiple of the half-life nearest to `instant`."""
        moved = nearest_multiple(instant, self.half_life)
        doublings = math.floor(elapsed(self.reference, moved) / self.half_life + 0.5)
        self.scale(math.ldexp(1.0, max(-2000, min(1023, doublings))))
        self.reference = moved

    def _growth(self, instant: Seconds) -> float:
        if instant > self.reference + MAX_DOUBLINGS * self.half_life:
            self.move_reference(instant)
        return exp2(elapsed(instant, self.reference) / self.half_life)


def mean(histogram: Histogram) -> float:
    """The mean of values, each taken to be in the middle of its bucket."""
    if histogram.total <= 0:
        return 0.0
    scheme = histogram.scheme
    weighted = sum(
        weight * (scheme.starts[bucket] + scheme.end(bucket)) / 2 for bucket, weight in enumerate(histogram.weights)
    )
    return weighted / histogram.total
