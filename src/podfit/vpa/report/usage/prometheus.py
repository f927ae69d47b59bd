"""Reads usage from Prometheus for a report: part by part from the oldest, one query at a time, with pauses between
them.

A part that fails several times is skipped and named in the report, which is then marked as partial.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import numpy as np

from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock
from podfit.vpa.history import queries
from podfit.vpa.history.base import Batch, HistoryUnavailable
from podfit.vpa.history.kills import KillCounters
from podfit.vpa.history.promapi import Floats, PrometheusApi, QueryRefused, ResponseTooLarge
from podfit.vpa.history.prometheus import Columns, halves
from podfit.vpa.history.queries import Part, PrometheusConfig
from podfit.vpa.model.times import Seconds, to_rfc3339
from podfit.vpa.recommender.decide.evidence.oom import Oom
from podfit.vpa.report.cluster.owners import Owner
from podfit.vpa.report.usage import promql
from podfit.vpa.report.usage.evidence import Remarks
from podfit.vpa.report.usage.promql import SeriesNames
from podfit.vpa.report.usage.saved import Saved

TRIES, FAILURES = 3, 3
"""How often a part is retried, and how many parts in a row may fail before the rest is skipped."""
_HOUR, _DAY = 3600.0, 86400.0
Seen = Callable[[int, int, int], None]
"""Called after each part: parts done, total parts, samples."""


class NoUsage(Exception):
    """This Prometheus has no usage data; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class PlannedReading:
    series_names: SeriesNames
    parts: tuple[Part, ...]
    every: Seconds
    until: Seconds

    @property
    def start(self) -> Seconds:
        return self.parts[0].start if self.parts else self.until


class PrometheusUsage:
    def __init__(
        self, config: PrometheusConfig, clock: Clock, *, share: float = 0.5, saved: Saved | None = None
    ) -> None:
        """`share` is the fraction of time in which queries may run."""
        self._config, self._clock, self._share, self._saved = config, clock, share, saved
        self.api = PrometheusApi(config, clock)
        self.remarks = Remarks()
        self._kills: KillCounters[tuple[str, str, str]] = KillCounters()
        self._unusable = 0

    async def close(self) -> None:
        await self.api.close()

    # --- planning

    async def plan(self, until: Seconds, namespace: str, pods: str, rules: bool = True) -> PlannedReading:
        """Finds out the names of metrics and labels in this Prometheus, and the amount of data. Raises NoUsage and
        HistoryUnavailable."""
        try:
            chosen, counts = await self._convention(until, namespace, pods)
            chosen = await self._rules(chosen, until) if rules else chosen
            every = await self._scraped_every(chosen, until)
            await self._check_duplicates(chosen, until)
        except (QueryRefused, ResponseTooLarge) as error:
            raise NoUsage(str(error)) from error
        step = queries.resolution(chosen.config, every, max(counts.values(), default=0))
        until = until // step * step
        if self._saved is not None:
            until = self._saved.begin(until, step).until
        config = replace(chosen.config, history_resolution=step)
        return PlannedReading(replace(chosen, config=config), tuple(queries.parts(config, until, counts)), every, until)

    async def _convention(self, until: Seconds, namespace: str, pods: str) -> tuple[SeriesNames, dict[Seconds, int]]:
        days = max(1, math.ceil(self._config.history_length / _DAY))
        instants = [until - day * _DAY for day in range(days)]
        probed = {instants[0], instants[-1], instants[days // 2]}
        # Containers that run for a part of the day, as those of a CronJob, are in none of the probed hours.
        for window, tried in ((_HOUR, probed), (_DAY, instants)):
            for chosen in promql.candidates(self._config, namespace, pods):
                count = chosen.count(window=window)
                probes = {at: await self._number(count, at) for at in tried}
                if any(probes.values()):
                    more = {at: await self._number(count, at) for at in instants if at not in probes}
                    return chosen, {**probes, **more}
        metric = self._config.history_memory_metric
        if not any([await self._number(f"count(last_over_time({metric}[1h]))", at) for at in probed]):
            raise NoUsage(f"Prometheus {self._config.prometheus_address} has no {metric}: does it scrape cAdvisor?")
        where = f" of namespace {namespace}" if namespace else ""
        raise NoUsage(
            f"Prometheus {self._config.prometheus_address} has {metric}, but no series with labels for pod and "
            f"container{where} in the last {days} days"
        )

    async def _rules(self, chosen: SeriesNames, until: Seconds) -> SeriesNames:
        """The queries with recording rules, if those cover about as many containers for the whole period."""
        whole = await self._number(chosen.count(), until)
        for rule in promql.CPU_RULES:
            if chosen.memory_rule and not await self._number(chosen.count(rule), until):
                continue
            old = await self._number(chosen.count(rule), until - self._config.history_length + _HOUR)
            if chosen.memory_rule or (old and await self._number(chosen.count(rule), until) >= 0.9 * whole):
                self.remarks.notes.append(f"cpu is read from the recording rule {rule}")
                return replace(chosen, cpu_rule=rule)
        return replace(chosen, cpu_rule="")

    async def _scraped_every(self, chosen: SeriesNames, until: Seconds) -> Seconds:
        days = max(1, math.ceil(self._config.history_length / _DAY))
        found = [await self._number(chosen.scrapes(_HOUR), until - at) for at in (0, _HOUR)]
        found += [await self._number(chosen.scrapes(_HOUR), until - day * _DAY) for day in range(1, days)]
        if max(found) > 1:
            return queries.interval_of(max(found), _HOUR)
        # Whether scrapes are rare or containers run for a part of the day is visible in every hour.
        for window in (_HOUR, _DAY):
            query, begin = chosen.scrapes(window), until - self._config.history_length
            most, at = await self._most(query, Part(begin, until, window, 0))
            if most > 1:
                # The window that is in the middle of the scrapes has the most.
                most, _ = await self._most(query, Part(at - window, at + window, window / 12, 0))
                return queries.interval_of(most, window)
        return 0

    async def _most(self, query: str, part: Part) -> tuple[int, Seconds]:
        """The highest value of one series, and its time."""
        found = [(0.0, part.end)]
        async for _, times, values in self.api.range(query, part):
            found += [(value, at) for at, value in zip(times.tolist(), values.tolist(), strict=True) if value > 0]
        value, at = max(found)
        return (int(value) if math.isfinite(value) else 0), at

    async def _check_duplicates(self, chosen: SeriesNames, until: Seconds) -> None:
        containers, series = await self._number(chosen.count(), until), await self._number(chosen.series(), until)
        if containers and series >= 1.5 * containers:
            self.remarks.notes.append(
                f"Prometheus has {series:.0f} series of {containers:.0f} containers (scraped more than once, or of "
                "several clusters without --cluster-label?): if a container has several series, the highest counts"
            )

    async def _number(self, query: str, at: Seconds) -> int:
        found = await self.api.instant(query, at)
        return int(found[0].value) if found and math.isfinite(found[0].value) else 0

    async def owners(
        self, plan: PlannedReading
    ) -> tuple[dict[tuple[str, str], Owner], dict[tuple[str, str, str], Owner]]:
        """The owners of pods, and of ReplicaSets and Jobs, as kube-state-metrics recorded them; empty without it."""
        pods: dict[tuple[str, str], Owner] = {}
        above: dict[tuple[str, str, str], Owner] = {}
        for query, label, kind in promql.owners(plan.series_names.config, plan.series_names.namespace):
            at = plan.until
            while at > plan.start:
                try:
                    found = await self.api.instant(query, at)
                except (QueryRefused, ResponseTooLarge, HistoryUnavailable) as error:
                    self.remarks.notes.append(f"owners of deleted pods are inferred from their names:  {error}")
                    return pods, above
                for sample in found:
                    namespace, name = sample.labels.get("namespace", ""), sample.labels.get(label, "")
                    owner = sample.labels.get("owner_kind", ""), sample.labels.get("owner_name", "")
                    if not name or not owner[1] or owner[0] in ("<none>", "Node"):
                        continue
                    if kind == "Pod":
                        pods.setdefault((namespace, name), owner)
                    else:
                        above.setdefault((namespace, kind, name), owner)
                if not found and at == plan.until:
                    break
                at -= _DAY
        return pods, above

    async def throttled(self, plan: PlannedReading) -> dict[tuple[str, str, str], float]:
        try:
            found = await self.api.instant(plan.series_names.throttled(), plan.until)
        except (QueryRefused, ResponseTooLarge, HistoryUnavailable) as error:
            self.remarks.notes.append(f"throttling is unknown: {error}")
            return {}
        names = plan.series_names.by.split(", ")
        keyed = [((*(sample.labels.get(name, "") for name in names),), sample.value) for sample in found]
        return {key: value for key, value in keyed if math.isfinite(value)}  # type: ignore[misc]

    # --- reading

    async def read(self, plan: PlannedReading, seen: Seen) -> AsyncIterator[Batch]:
        """Yields the samples in batches, in order of time."""
        waiting, done, samples = list(plan.parts), 0, 0
        failed: list[Part] = []
        while waiting:
            part = waiting[0]
            try:
                batch = await self._part(plan, part)
                failed = []
            except (HistoryUnavailable, QueryRefused, ResponseTooLarge) as error:
                if isinstance(error, ResponseTooLarge) and part.points >= 2:
                    waiting[:1] = halves(part)
                    continue
                batch = self._missing_part(part, str(error))
                failed.append(part)
                if len(failed) >= FAILURES:
                    self._give_up(failed, str(error))
                    return
            del waiting[0]
            done += 1
            samples += len(batch.times)
            yield batch
            seen(done, done + len(waiting), samples)
        self._finish(plan, samples)

    def _missing_part(self, part: Part, why: str) -> Batch:
        self._kills.gap()
        self.remarks.missing.append(f"nothing from {to_rfc3339(part.start)} to {to_rfc3339(part.end)}: {why}")
        nothing = np.zeros(0, np.int64)
        return Batch([], nothing, np.zeros(0), nothing, nothing)

    def _give_up(self, failed: list[Part], why: str) -> None:
        start = to_rfc3339(failed[0].start)
        words = f"reading stopped at {start}, {len(failed)} parts failed in a row: {why}"
        self.remarks.missing[-len(failed) :] = [words]

    def _finish(self, plan: PlannedReading, samples: int) -> None:
        if not samples and not self._unusable and not self.remarks.missing:
            self.remarks.missing.append(
                f"Prometheus {self._config.prometheus_address} has no sample of these containers before "
                f"{to_rfc3339(plan.until)}, and newer ones are less than a step of "
                f"{plan.series_names.config.history_resolution:g} s: its history is too short"
            )
        self.remarks.missing += [f"Prometheus warns: {words}" for words in self.api.warnings]
        if self._unusable:
            self.remarks.notes.append(f"{self._unusable} samples were not usable (NaN, infinite, negative): dropped")
        if self._saved is not None:
            if self._saved.reused:
                self.remarks.notes.append(f"{self._saved.reused} parts were read in an earlier run and reused")
            if not self.remarks.missing:
                self._saved.end()

    async def _part(self, plan: PlannedReading, part: Part) -> Batch:
        if self._saved is not None and (found := self._saved.find(part.start, part.end)) is not None:
            batch, self._kills = found
            return batch
        pause = Backoff(0.5, 10.0, jitter=0.2)
        for attempt in range(TRIES):
            kills = self._kills.copy()
            try:
                batch = await self._fetch(plan, part)
            except HistoryUnavailable:
                self._kills = kills
                if attempt == TRIES - 1:
                    raise
                await self._clock.sleep(pause.next())
                continue
            if self._saved is not None:
                self._saved.keep(part.start, part.end, batch, self._kills)
            return batch
        raise AssertionError

    async def _fetch(self, plan: PlannedReading, part: Part) -> Batch:
        columns, first = Columns(plan.series_names.config, {}), math.inf
        for query, add in (
            (plan.series_names.cpu(plan.every), columns.add_cpu),
            (plan.series_names.memory(plan.every), columns.add_memory),
        ):
            begun = self._clock.monotonic()
            async for labels, times, values in self.api.range(query, part):
                self._unusable += int(np.count_nonzero(~(np.isfinite(values) & (values >= 0))))
                add(labels, times, values)
                first = min(first, times.min(initial=math.inf))
            await self._pause(self._clock.monotonic() - begun)
        if math.isfinite(first):
            self._kills.sampled(first)
        ooms: list[Oom] = []
        try:
            async for labels, times, values in self.api.range(plan.series_names.ooms(plan.every), part):
                ooms += self._ooms(plan, labels, times, values)
        except QueryRefused as error:
            if not any("out-of-memory" in note for note in self.remarks.notes):
                self.remarks.notes.append(f"out-of-memory kills are unknown: {error}")
        return columns.batch(sorted(ooms, key=lambda oom: oom.instant))

    def _ooms(self, plan: PlannedReading, labels: dict[str, str], times: Floats, values: Floats) -> list[Oom]:
        namespace, pod, container = (labels.get(name, "") for name in plan.series_names.by.split(", "))
        who = (namespace, pod, container)
        points = list(zip(times.tolist(), values.tolist(), strict=True))
        return [Oom(*who, at, 0) for at in self._kills.rises(who, points)]

    async def _pause(self, took: Seconds) -> None:
        """Pauses after a query, so that queries run for no more than the configured share of time."""
        if 0 < self._share < 1 and took > 0:
            await self._clock.sleep(min(30.0, took * (1 - self._share) / self._share))
