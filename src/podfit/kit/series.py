"""Counters, gauges and histograms for events that occur thousands of times a second.

They produce the same text as Prometheus' own, but count in plain numbers and find a series by its labels with one
lookup. For each increment the library takes a lock and checks its arguments, which costs more than most of the events
that are counted, and it allocates an object with a lock for each bucket of each series. Not thread-safe.

A metric may declare the values of its labels. Every combination is then exported as 0 until it is first counted:
Prometheus' rate() and increase() miss the first event of a series that begins at 1, and a dashboard cannot distinguish
"none yet" from "not exported". The zeros are generated during a scrape and use no memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, Self

import prometheus_client
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

# Kubernetes' components export no `_created` series, and nothing here reads them.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Labelled(MetricWrapperBase):
    label_values: Mapping[str, tuple[str, ...]] = {}
    """The values of labels that have a fixed set of values."""
    _zeros: tuple[tuple[str, ...], ...] = ()

    def labels(self, *values: str) -> Self:  # type: ignore[override]
        known: Any = self._metrics.get(values)
        return known or super().labels(*values)  # type: ignore[no-any-return]

    def with_values(self, **values: Iterable[str]) -> Self:
        """Declares the values of all labels; their combinations start at 0."""
        self.may_have(**values)
        self._zeros = tuple(product(*(self.label_values[name] for name in self._labelnames)))
        return self

    def may_have(self, **values: Iterable[str]) -> Self:
        """Declares the values of some labels; a series starts when it is first counted."""
        self.label_values = {name: tuple(some) for name, some in values.items()}
        return self

    def _multi_samples(self) -> Iterable[Sample]:
        yield from super()._multi_samples()
        absent = [values for values in self._zeros if values not in self._metrics]
        if not absent:
            return
        own: dict[str, Any] = self._kwargs
        blank = type(self)(self._original_name, self._documentation, registry=None, **own)
        zeros = list(blank._samples())
        for values in absent:
            named = dict(zip(self._labelnames, values, strict=True))
            for zero in zeros:
                yield Sample(zero.name, {**named, **zero.labels}, zero.value)


class Counter(Labelled, prometheus_client.Counter):
    def _metric_init(self) -> None:
        self._counted = 0.0

    def inc(self, amount: float = 1) -> None:  # type: ignore[override]
        if amount < 0:
            raise ValueError("a counter only grows")
        self._counted += amount

    def _child_samples(self) -> Iterable[Sample]:
        return (Sample("_total", {}, self._counted),)


class Gauge(Labelled, prometheus_client.Gauge):
    def _metric_init(self) -> None:
        self._level = 0.0

    def inc(self, amount: float = 1) -> None:
        self._level += amount

    def dec(self, amount: float = 1) -> None:
        self._level -= amount

    def set(self, value: float) -> None:
        self._level = float(value)

    def _child_samples(self) -> Iterable[Sample]:
        return (Sample("", {}, self._level),)


class Histogram(Labelled, prometheus_client.Histogram):
    def _metric_init(self) -> None:
        self._counted = [0] * len(self._upper_bounds)
        self._summed = 0.0

    def observe(self, amount: float) -> None:  # type: ignore[override]
        self._summed += amount
        self._counted[bisect_left(self._upper_bounds, amount)] += 1

    def _child_samples(self) -> Iterable[Sample]:
        total = 0
        for bound, count in zip(self._upper_bounds, self._counted, strict=True):
            total += count
            yield Sample("_bucket", {"le": _formatted(bound)}, float(total))
        yield Sample("_count", {}, float(total))
        yield Sample("_sum", {}, self._summed)


def _formatted(bound: float) -> str:
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]
