"""Histograms that record whole arrays of observations at once.

A pass of the recommender compares every sample with a recommendation: one call per observation would cost more than the
samples themselves. For Prometheus these are regular histograms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray
from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


class CountedMetric(Collector):
    def __init__(
        self,
        registry: CollectorRegistry,
        name: str,
        help: str,
        labels: Mapping[str, tuple[str, ...]],
        buckets: Iterable[float],
    ) -> None:
        """`labels` maps each label to its possible values."""
        self.label_values = labels
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._borders = np.array(sorted(buckets), np.float64)
        self._counts: dict[Labels, NDArray[np.int64]] = {}
        self._sums: dict[Labels, float] = {}
        registry.register(self)

    def observe(self, labels: Labels, values: ArrayLike) -> None:
        """Records all values of an array."""
        found = np.atleast_1d(np.asarray(values, np.float64))
        if not len(found):
            return
        places = np.searchsorted(self._borders, found, side="left")
        counts = np.bincount(places, minlength=len(self._borders) + 1)
        before = self._counts.get(labels)
        self._counts[labels] = counts if before is None else before + counts
        self._sums[labels] = self._sums.get(labels, 0.0) + float(found.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        names = [*map(_formatted, self._borders.tolist()), "+Inf"]
        for labels, counts in list(self._counts.items()):
            named = dict(zip(self._labels, labels, strict=True))
            for border, count in zip(names, np.cumsum(counts).tolist(), strict=True):
                family.add_sample(f"{self._name}_bucket", {**named, "le": border}, count)
            # These two are also needed with buckets below zero, for which the library would omit them.
            family.add_sample(f"{self._name}_count", named, int(counts.sum()))
            family.add_sample(f"{self._name}_sum", named, self._sums[labels])
        yield family


def _formatted(border: float) -> str:
    return str(floatToGoString(border))  # type: ignore[no-untyped-call]
