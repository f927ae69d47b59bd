"""The history from Prometheus: read once at start, part by part from the oldest, each part added to the histograms as
it arrives.

The number of samples limits the size of a part. A part that fails is retried after a growing delay, and split in halves
if it was too large. Parts that were loaded are not queried again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock
from podfit.vpa.history import queries
from podfit.vpa.history.base import NONE, Batch, HistoryUnavailable, Series, Sink
from podfit.vpa.history.kills import KillCounters
from podfit.vpa.history.promapi import Measured, PrometheusApi, QueryRefused, ResponseTooLarge
from podfit.vpa.history.queries import Part, PrometheusConfig
from podfit.vpa.model.objects.labels import label_text
from podfit.vpa.model.times import Seconds, to_rfc3339
from podfit.vpa.recommender.decide.evidence.oom import Oom

log = logging.getLogger(__name__)

TRIES = 4
_DAY, _HOUR = 86400.0, 3600.0


@dataclass(frozen=True, slots=True)
class PlannedQueries:
    """The queries that `load` would send."""

    config: PrometheusConfig
    label_query: str
    cpu_query: str
    memory_query: str
    oom_query: str
    parts: tuple[Part, ...]
    scraped_every: Seconds = 0
    """The interval between samples in Prometheus; 0 if there are none."""

    @property
    def expected(self) -> int:
        return 2 * sum(part.expected for part in self.parts)


class PrometheusHistory:
    writes_checkpoints = False
    keeps_samples = False

    def __init__(
        self,
        config: PrometheusConfig,
        *,
        namespace: str = "",
        known_labels: Iterable[str] = (),
        clock: Clock | None = None,
        measured: Measured | None = None,
    ) -> None:
        self.config, self._namespace = config, namespace
        self._clock = clock or RealClock()
        self.api = PrometheusApi(config, self._clock, measured)
        self.known_labels: set[str] = set(known_labels)
        """Label names in use; the recommender adds those of the pods and selectors it sees."""
        self._backoff = Backoff(0.5, 30.0, jitter=0.2)
        self._plan: PlannedQueries | None = None
        self._labels: dict[tuple[str, str], str] = {}
        self._waiting: list[Part] = []
        self._kills: KillCounters[tuple[tuple[str, str], ...]] = KillCounters()
        """The out-of-memory counters, by the labels of their series."""
        self._last_time: Seconds | None = None
        self.gaps: list[tuple[Seconds, Seconds]] = []

    # --- History

    async def load(self, sink: Sink, until: Seconds) -> None:
        if self._plan is None:
            try:
                plan = await self.plan(until)
                self._labels = await self._pod_labels(plan, until)
            except (QueryRefused, ResponseTooLarge) as error:
                raise HistoryUnavailable(str(error)) from error
            self._plan, self._waiting = plan, list(plan.parts)
        while self._waiting:
            part = self._waiting[0]
            try:
                batch = await self._retried(part)
            except ResponseTooLarge as error:
                if part.points < 2:
                    raise HistoryUnavailable(str(error)) from error
                self._waiting[:1] = halves(part)
                continue
            self._check_gaps(batch)
            sink.take(batch)
            del self._waiting[0]

    def _check_gaps(self, batch: Batch) -> None:
        """Records periods for which Prometheus has no data of any container."""
        assert self._plan is not None
        times = np.unique(batch.times)
        if not len(times):
            return
        seen = np.concatenate(([self._last_time], times)) if self._last_time is not None else times
        for at in np.flatnonzero(np.diff(seen) > 1.5 * self.step).tolist():
            self.gaps.append((float(seen[at]), float(seen[at + 1])))
            log.warning("history: Prometheus has no data from %s to %s", *map(to_rfc3339, self.gaps[-1]))
        self._last_time = float(times[-1])

    @property
    def step(self) -> Seconds:
        """The interval between the samples that `load` delivers."""
        return self._plan.config.history_resolution if self._plan is not None else self.config.history_resolution

    def record(self, batch: Batch) -> None:
        """Does nothing: Prometheus scrapes the metrics itself."""

    async def flush(self) -> None:
        return

    async def close(self) -> None:
        await self.api.close()

    # --- planning

    async def plan(self, until: Seconds) -> PlannedQueries:
        """Determines the label names of this Prometheus, and the amount of data."""
        config, counts = await self._spelling(until)
        labels = await self._label_spelling(config, until)
        config = replace(config, **{name: getattr(labels, name) for name in queries.STATE_METRICS})
        every = await self._scraped_every(config, until)
        step = queries.resolution(config, every, max(counts.values(), default=0))
        config = await self._oom_spelling(replace(config, history_resolution=step), until)
        return PlannedQueries(
            config,
            queries.labels_query(config, config.history_length),
            queries.cpu_query(config, self._namespace, every),
            queries.memory_query(config, self._namespace, every),
            queries.oom_query(config, self._namespace, every),
            tuple(queries.parts(config, until, counts)),
            every,
        )

    async def _scraped_every(self, config: PrometheusConfig, until: Seconds) -> Seconds:
        """The scrape interval: from the busiest hour among the last one and one in each day, or else from whole
        days."""
        days = [until - day * _DAY for day in range(math.ceil(self.config.history_length / _DAY))]
        for window, instants in ((_HOUR, [until - _HOUR, *days]), (_DAY, days)):
            query = queries.scrapes_query(config, self._namespace, window)
            found = [sample.value for at in instants for sample in await self.api.instant(query, at)]
            if (most := max(found, default=0)) > 1:
                return queries.interval_of(most, window)
        return 0

    async def _oom_spelling(self, config: PrometheusConfig, until: Seconds) -> PrometheusConfig:
        given = config.history_oom_metric != PrometheusConfig().history_oom_metric
        if given or not await self.api.instant(queries.own_oom_query(config, self._namespace), until):
            return config
        return replace(config, history_oom_metric=queries.OWN_OOM_METRIC)

    async def _spelling(self, until: Seconds) -> tuple[PrometheusConfig, dict[Seconds, int]]:
        days = math.ceil(self.config.history_length / _DAY)
        for config in queries.spellings(self.config):
            counts = {until - day * _DAY: await self._count(config, until - day * _DAY) for day in (0, days - 1)}
            if any(counts.values()):
                between = [until - day * _DAY for day in range(1, days - 1)]
                return config, counts | {at: await self._count(config, at) for at in between}
        return self.config, {until: 0}

    async def _count(self, config: PrometheusConfig, at: Seconds) -> int:
        found = await self.api.instant(queries.count_query(config, self._namespace), at)
        return int(found[0].value) if found else 0

    async def _label_spelling(self, config: PrometheusConfig, until: Seconds) -> PrometheusConfig:
        for candidate in queries.label_spellings(config):
            text = f"count({queries.labels_query(candidate, config.history_length)})"
            if await self.api.instant(text, until):
                return candidate
        return config

    async def _pod_labels(self, plan: PlannedQueries, until: Seconds) -> dict[tuple[str, str], str]:
        """The latest labels of every pod, deleted ones included."""
        config, known = plan.config, queries.spelled(self.known_labels)
        found: dict[tuple[str, str], tuple[float, str]] = {}
        for sample in await self.api.instant(plan.label_query, until):
            key = sample.labels.get(config.pod_namespace_label, ""), sample.labels.get(config.pod_name_label, "")
            if not key[1] or (key in found and found[key][0] >= sample.value):
                continue
            labels = queries.original_labels(sample.labels, config.pod_label_prefix, known)
            found[key] = sample.value, label_text(labels)
        return {key: labels for key, (_, labels) in found.items()}

    # --- loading

    async def _retried(self, part: Part) -> Batch:
        """Fetches the samples of a part. Raises HistoryUnavailable after several failures, ResponseTooLarge if it must
        be split."""
        while True:
            try:
                batch = await self._fetch(part)
                self._backoff.forget()
                return batch
            except QueryRefused as error:
                raise HistoryUnavailable(str(error)) from error
            except HistoryUnavailable:
                if self._backoff.tries() + 1 >= TRIES:
                    self._backoff.forget()
                    raise
                await self._clock.sleep(self._backoff.next())

    async def _fetch(self, part: Part) -> Batch:
        assert self._plan is not None
        columns = Columns(self._plan.config, self._labels)
        async for labels, times, values in self.api.range(self._plan.cpu_query, part):
            columns.add_cpu(labels, times, values)
        async for labels, times, values in self.api.range(self._plan.memory_query, part):
            columns.add_memory(labels, times, values)
        ooms: list[Oom] = []
        kills, batch = self._kills.copy(), columns.batch([])
        if len(batch.times):
            kills.sampled(float(batch.times[0]))
        try:
            async for labels, times, values in self.api.range(self._plan.oom_query, part):
                who = columns.identity(labels)
                if who is not None:
                    points = list(zip(times.tolist(), values.tolist(), strict=True))
                    # The container's memory at that time is unknown; the peak until then is used.
                    at = kills.rises(tuple(sorted(labels.items())), points)
                    ooms += [Oom(who.namespace, who.pod, who.container, one, 0) for one in at]
        except QueryRefused as error:
            log.info("no out-of-memory events from Prometheus: %s", error)
        self._kills = kills
        return replace(batch, ooms=sorted(ooms, key=lambda oom: oom.instant))


class Columns:
    """Collects the series of one part as columns; several series of one container (after a restart) become one."""

    def __init__(self, config: PrometheusConfig, labels: Mapping[tuple[str, str], str]) -> None:
        self._config, self._labels = config, labels
        self._series: dict[tuple[str, str, str], int] = {}
        self._who: list[Series] = []
        self._parts: list[tuple[int, np.ndarray, np.ndarray, bool]] = []  # type: ignore[type-arg]

    def identity(self, labels: Mapping[str, str]) -> Series | None:
        index = self._index(labels)
        return self._who[index] if index is not None else None

    def _index(self, labels: Mapping[str, str]) -> int | None:
        config = self._config
        namespace = labels.get(config.container_namespace_label, "")
        pod, container = labels.get(config.container_pod_name_label, ""), labels.get(config.container_name_label, "")
        if not namespace or not pod or not container:
            return None
        index = self._series.setdefault((namespace, pod, container), len(self._who))
        if index == len(self._who):
            self._who.append(Series(namespace, pod, container, self._labels.get((namespace, pod), "")))
        return index

    def add_cpu(self, labels: Mapping[str, str], times: np.ndarray, values: np.ndarray) -> None:  # type: ignore[type-arg]
        self._add(labels, times, values * 1000.0, True)

    def add_memory(self, labels: Mapping[str, str], times: np.ndarray, values: np.ndarray) -> None:  # type: ignore[type-arg]
        self._add(labels, times, values, False)

    def _add(self, labels: Mapping[str, str], times: np.ndarray, values: np.ndarray, cpu: bool) -> None:  # type: ignore[type-arg]
        index = self._index(labels)
        good = np.isfinite(values) & (values >= 0) & (values < 1e15)
        if index is not None and good.any():
            self._parts.append((index, times[good], values[good].astype(np.int64), cpu))

    def batch(self, ooms: list[Oom]) -> Batch:
        if not self._parts:
            nothing = np.zeros(0, np.int64)
            return Batch(self._who, nothing, np.zeros(0), nothing, nothing, ooms)
        index = np.concatenate([np.full(len(times), who) for who, times, _, _ in self._parts])
        times = np.concatenate([times for _, times, _, _ in self._parts])
        values = np.concatenate([values for _, _, values, _ in self._parts])
        is_cpu = np.concatenate([np.full(len(times), cpu) for _, times, _, cpu in self._parts])
        order = np.argsort(times, kind="stable")
        index, times, values, is_cpu = index[order], times[order], values[order], is_cpu[order]
        return Batch(self._who, index, times, np.where(is_cpu, values, NONE), np.where(is_cpu, NONE, values), ooms)


def halves(part: Part) -> list[Part]:
    middle = part.start + part.points // 2 * part.step
    borders = (part.start, middle, part.end + part.step)
    made = []
    for start, after in pairwise(borders):
        chunk = replace(part, start=start, end=after - part.step)
        made.append(replace(chunk, expected=part.expected * chunk.points // part.points))
    return made
