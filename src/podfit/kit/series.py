"""Counters, gauges and histograms for what happens thousands of times a second.

They are Prometheus' own and show the same text, but count in plain numbers that are handed to the library when somebody
reads them, and find a series by its labels with one look. The library takes a lock and checks its arguments each time,
which costs more than most of what is counted. Count from one thread only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Self, cast

import prometheus_client
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.samples import Sample


class _Labelled(MetricWrapperBase):
    def labels(self, *values: str) -> Self:  # type: ignore[override]
        return cast(Self, self._metrics.get(values) or super().labels(*values))


class Counter(_Labelled, prometheus_client.Counter):
    def _metric_init(self) -> None:
        super()._metric_init()
        self._counted = 0.0

    def inc(self, amount: float = 1) -> None:  # type: ignore[override]
        if amount < 0:
            raise ValueError("a counter only grows")
        self._counted += amount

    def _child_samples(self) -> Iterable[Sample]:
        self._value.set(self._counted)
        return super()._child_samples()


class Gauge(_Labelled, prometheus_client.Gauge):
    def _metric_init(self) -> None:
        super()._metric_init()
        self._stands_at = 0.0

    def inc(self, amount: float = 1) -> None:
        self._stands_at += amount

    def dec(self, amount: float = 1) -> None:
        self._stands_at -= amount

    def set(self, value: float) -> None:
        self._stands_at = float(value)

    def _child_samples(self) -> Iterable[Sample]:
        self._value.set(self._stands_at)
        return super()._child_samples()


class Histogram(_Labelled, prometheus_client.Histogram):
    def _metric_init(self) -> None:
        super()._metric_init()
        self._counted = [0] * len(self._upper_bounds)
        self._summed = 0.0

    def observe(self, amount: float) -> None:  # type: ignore[override]
        self._summed += amount
        self._counted[bisect_left(self._upper_bounds, amount)] += 1

    def _child_samples(self) -> Iterable[Sample]:
        self._sum.set(self._summed)
        for bucket, count in zip(self._buckets, self._counted, strict=True):
            bucket.set(count)
        return super()._child_samples()
