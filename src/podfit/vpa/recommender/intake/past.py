"""Adds samples from a history to the histograms.

While the history is loaded, deleted pods count under their old labels; their samples are kept. A pod that already has
live samples gets a second entry for its past, because samples older than the last one are rejected.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.history.base import NONE, Batch, Series
from podfit.vpa.model.objects.labels import labels_from
from podfit.vpa.model.times import NEVER, Seconds
from podfit.vpa.recommender.decide.evidence.oom import Oom
from podfit.vpa.recommender.decide.fleet.rows import RowContainer
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, ClusterState, PodId, UnknownTarget
from podfit.vpa.recommender.decide.histograms.container import OomRefused
from podfit.vpa.recommender.intake.usage import ingest_handles

_SHADOW = "\0past"
"""No pod can have this name."""


class PastCurves(Protocol):
    def take_past(self, handles: NDArray[np.int64], batch: Batch) -> None:
        """Adds the samples of a batch. `handles[i]` is the handle of `batch.series[i]`, NONE if it is unknown."""

    def killed(self, state: AggregateState | None, instant: Seconds, memory: int) -> None: ...


class Past:
    def __init__(
        self, cluster: ClusterState, namespaces: frozenset[str] = frozenset(), curves: PastCurves | None = None
    ) -> None:
        """`namespaces` are skipped. `curves` also receives every sample."""
        self._cluster, self._ignored, self._curves = cluster, namespaces, curves
        self._made: set[PodId] = set()
        self._of: dict[PodId, PodId] = {}
        self.samples = 0
        self.containers: set[tuple[str, str]] = set()
        """(namespace, container) with samples in the history."""
        self.seen: set[tuple[str, str, str]] = set()
        """(namespace, pod, container) with samples."""
        self.stretch: dict[AggregateKey, int] = {}
        """The number of CPU samples of each aggregate."""
        self._kills: dict[tuple[PodId, str], list[Seconds]] = {}

    def take(self, batch: Batch) -> None:
        fleet = self._cluster.fleet
        assert fleet is not None
        handles = np.fromiter((self._handle(series) for series in batch.series), np.int64, len(batch.series))
        self._count(batch, handles)
        start = 0
        if self._curves is not None:
            self._curves.take_past(handles, batch)
        for oom in batch.ooms:
            # Events are in order of time, because each counts relative to the peak at that time.
            end = int(np.searchsorted(batch.times, oom.instant, side="right"))
            self.samples += ingest_handles(fleet, handles, _cut(batch, start, end))
            start = end
            self._oom((oom.namespace, oom.pod), oom.container, oom.instant, oom.memory)
        self.samples += ingest_handles(fleet, handles, _cut(batch, start, len(batch.times)))

    def _count(self, batch: Batch, handles: np.ndarray) -> None:  # type: ignore[type-arg]
        """Records the containers that have samples, and the number of samples."""
        given = np.bincount(batch.index[batch.cpu != NONE], minlength=len(batch.series)).tolist()
        any_given = np.bincount(batch.index, minlength=len(batch.series)).tolist()
        for series, handle, cpu, both in zip(batch.series, handles.tolist(), given, any_given, strict=True):
            if handle == NONE or not both:
                continue
            self.seen.add((series.namespace, series.pod, series.container))
            pod = self._cluster.pod(self._of[series.namespace, series.pod])
            if pod is not None:
                key = AggregateKey(series.namespace, series.container, pod.label_text)
                self.stretch[key] = self.stretch.get(key, 0) + cpu

    def end(self) -> None:
        """Drops the pods that only exist in the history; their samples are kept."""
        for id in self._made:
            self._cluster.delete_pod(id)
        self._made.clear()

    def _handle(self, series: Series) -> int:
        if series.namespace in self._ignored or not series.pod:
            return NONE
        id = self._pod_of(series)
        pod = self._cluster.pod(id)
        if pod is None or series.container not in pod.containers:
            if pod is not None and id not in self._made:
                # The live pod does not have this container: it was renamed, or it is an init container.
                return NONE
            self._cluster.add_container(id, series.container)
            pod = self._cluster.pod(id)
            assert pod is not None
        state = pod.containers[series.container]
        self.containers.add((series.namespace, series.container))
        return state.handle if isinstance(state, RowContainer) else NONE

    def _pod_of(self, series: Series) -> PodId:
        real = (series.namespace, series.pod)
        found = self._of.get(real)
        if found is not None:
            return found
        pod = self._cluster.pod(real)
        live = pod is not None and any(state.last_cpu != NEVER for state in pod.containers.values())
        if pod is not None and not live:
            self._of[real] = real
            return real
        id = (series.namespace, series.pod + _SHADOW) if live else real
        labels = pod.label_text if pod is not None else series.labels
        self._cluster.add_pod(id, labels_from(labels), "Unknown")
        self._made.add(id)
        self._of[real] = id
        return id

    def knows(self, kill: Oom, within: Seconds) -> bool:
        """Whether the history contains this kill, at most `within` later than in the pod's status."""
        found = self._kills.get(((kill.namespace, kill.pod), kill.container), ())
        return any(-1.0 <= instant - kill.instant <= within for instant in found)

    def _oom(self, real: PodId, container: str, instant: Seconds, memory: int) -> None:
        self._kills.setdefault((real, container), []).append(instant)
        try:
            id = self._of.get(real, real)
            needed = self._cluster.record_oom(id, container, instant, memory)
            if self._curves is not None:
                self._curves.killed(self._cluster.aggregate_of(id, container), instant, needed)
        except (OomRefused, UnknownTarget):
            return


def _cut(batch: Batch, start: int, end: int) -> Batch:
    part = slice(start, end)
    return Batch(batch.series, batch.index[part], batch.times[part], batch.cpu[part], batch.memory[part])
