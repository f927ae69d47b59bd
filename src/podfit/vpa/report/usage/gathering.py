"""Turns samples of pods into evidence about workloads: histograms of the autoscaler's model, and curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.history.base import NONE, Batch, Series
from podfit.vpa.model.objects.labels import label_text
from podfit.vpa.model.objects.matching import Target
from podfit.vpa.model.times import NEVER
from podfit.vpa.observe.targets import OWNED_BY, owned_by
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.estimates import estimate_vpas
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.recommender.intake.past import Past
from podfit.vpa.report.cluster.owners import Owners
from podfit.vpa.report.cluster.workloads import Key
from podfit.vpa.report.usage.curves import Grid, WorkloadCurves
from podfit.vpa.report.usage.evidence import Curve, Evidence, Known

IMPOSSIBLE = 1.5
"""Samples above this multiple of the largest node are considered wrong."""


class Gatherer:
    """Receives a history's batches, oldest first."""

    def __init__(self, owners: Owners, config: Config, grid: Grid, largest: Mapping[str, int] | None = None) -> None:
        self._owners, self._largest = owners, dict(largest or {})
        self._cluster = ClusterState(config, Fleet(config))
        self._past = Past(self._cluster)
        self._curves = WorkloadCurves(grid)
        self._pods: dict[tuple[Key, str], set[str]] = {}
        self._ooms: dict[tuple[Key, str], int] = {}
        self._vpas: dict[Key, Vpa] = {}
        self.impossible = 0
        """The number of samples that were dropped because they exceed every node."""
        self.unknown_pods: dict[tuple[str, str], None] = {}
        """Pods that belong to no workload of the cluster."""

    def take(self, batch: Batch) -> None:
        batch = self._plausible(batch)
        keys = [self._key(series) for series in batch.series]
        rows = np.fromiter(
            (
                self._curves.row(key, series.container) if key is not None else -1
                for key, series in zip(keys, batch.series, strict=True)
            ),
            np.int64,
            len(keys),
        )
        self._curves.take(batch, rows)
        for key, series in zip(keys, batch.series, strict=True):
            if key is not None:
                self._pods.setdefault((key, series.container), set()).add(series.pod)
        for oom in batch.ooms:
            owner = self._owners.of(oom.namespace, oom.pod)
            if owner is not None:
                self._ooms[owner, oom.container] = self._ooms.get((owner, oom.container), 0) + 1
        self._past.take(_of_workloads(batch, keys))

    def known(self, source: str, expected: int = 0) -> Known:
        """The evidence about every measured container. With `expected` samples its data is complete."""
        self._past.end()
        sizes = estimate_vpas(self._cluster, self._vpas.values())
        found: Known = {}
        for key, container in self._curves.known:
            vpa, curve = self._vpas.get(key), self._curves.curve(key, container)
            if vpa is not None and curve is not None:
                size = sizes[vpa.id].get(container, Estimate({}, {}, {}))
                found[key, container] = self._evidence(key, container, source, size, curve, expected)
        return found

    def _evidence(self, key: Key, container: str, source: str, size: Estimate, curve: Curve, expected: int) -> Evidence:
        there = np.isfinite(curve.cpu) | np.isfinite(curve.memory)
        points = np.flatnonzero(there)
        times = (curve.start + curve.step * points[[0, -1]]).tolist() if len(points) else [NEVER, NEVER]
        span = int(points[-1] - points[0] + 1) if len(points) else 0
        return Evidence(
            source,
            int(np.isfinite(curve.cpu).sum() + np.isfinite(curve.memory).sum()),
            times[0],
            times[1],
            len(self._pods.get((key, container), ())),
            size,
            _numbers(curve),
            _means(curve),
            self._ooms.get((key, container), 0),
            None,
            curve,
            coverage=len(points) / max(1, span if not expected else min(span, expected)),
        )

    def _key(self, series: Series) -> Key | None:
        key = self._owners.of(series.namespace, series.pod)
        if key is None:
            self.unknown_pods[series.namespace, series.pod] = None
        elif key not in self._vpas:
            target = Target(key.namespace, key.kind, key.name)
            named = {"metadata": {"namespace": key.namespace, "name": f"{key.kind}.{key.name}"}, "spec": {}}
            self._vpas[key] = self._cluster.add_vpa(named, owned_by(target))
        return key

    def _plausible(self, batch: Batch) -> Batch:
        cpu, memory = (self._bounded(name, values) for name, values in (("cpu", batch.cpu), ("memory", batch.memory)))
        return Batch(batch.series, batch.index, batch.times, cpu, memory, batch.ooms)

    def _bounded(self, resource: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        most = self._largest.get(resource)
        if not most:
            return values
        wrong = values > IMPOSSIBLE * most
        self.impossible += int(wrong.sum())
        return np.where(wrong, NONE, values)


def _of_workloads(batch: Batch, keys: Iterable[Key | None]) -> Batch:
    """The same samples, for pods that are labelled with their workload. Series without a workload have no pod."""
    series = [
        Series(row.namespace, row.pod, row.container, label_text({OWNED_BY: f"{key.kind}.{key.name}"}))
        if key is not None
        else Series(row.namespace, "", row.container, "")
        for row, key in zip(batch.series, keys, strict=True)
    ]
    return Batch(series, batch.index, batch.times, batch.cpu, batch.memory, batch.ooms)


def _numbers(curve: Curve) -> dict[str, int]:
    found: dict[str, int] = {}
    if np.isfinite(curve.cpu).any():
        found["cpu"] = round(float(np.nanpercentile(curve.cpu, 95)) * 1000)
    if np.isfinite(curve.memory).any():
        found["memory"] = int(np.nanmax(curve.memory))
    return found


def _means(curve: Curve) -> dict[str, int]:
    found: dict[str, int] = {}
    if np.isfinite(curve.cpu_mean).any():
        found["cpu"] = round(float(np.nanmean(curve.cpu_mean)) * 1000)
    if np.isfinite(curve.memory_mean).any():
        found["memory"] = int(np.nanmean(curve.memory_mean))
    return found
