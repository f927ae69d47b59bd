"""Reads the recommender's input: its history when it starts, then usage and out-of-memory kills in every pass."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from podfit.api.numbers import Numbers
from podfit.kit.backoff import Backoff
from podfit.kit.concurrency.time_slice import TimeSlice
from podfit.vpa.history.base import HistoryUnavailable
from podfit.vpa.history.prometheus import PrometheusHistory
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.evidence.oom import Oom
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, UnknownTarget, Vpa
from podfit.vpa.recommender.decide.histograms.container import OomRefused
from podfit.vpa.recommender.intake import external, usage
from podfit.vpa.recommender.intake.past import Past
from podfit.vpa.recommender.intake.throttle import note_starved

if TYPE_CHECKING:
    from podfit.vpa.recommender.loop import Recommender

log = logging.getLogger(__name__)


class PastLoader:
    def __init__(self, recommender: Recommender) -> None:
        self._of = recommender
        self.missing = ""
        """Why the history is not loaded, or empty."""
        self.stretch: Mapping[AggregateKey, int] = {}
        """CPU samples from the history by aggregate, each of which represents this many minutes:"""
        self.minutes = 1.0

    async def load(self) -> None:
        self._of.policies.follow()
        past = Past(self._of.cluster, self._of.caches.ignored, self._of.policies)
        backoff = Backoff(1.0, 60.0, jitter=0.1)
        until = self._of.clock.now()
        if isinstance(self._of.history, PrometheusHistory):
            self._of.history.known_labels |= self._of.feed.label_names()
        self.missing = "The history is being loaded."
        while True:
            try:
                await self._of.history.load(past, until)
                break
            except HistoryUnavailable as error:
                self.missing = f"The history cannot be read yet: {error}"
                log.warning("%s", self.missing)
                await self._of.clock.sleep(backoff.next())
        self._of.policies.past_taken(until)
        past.end()
        if self._of.history.writes_checkpoints:
            # Checkpoints are not loaded for usage that is in the history.
            self._of.feed.load_checkpoints(lambda vpa, container: (vpa.id[0], container) not in past.containers)
            self._of.feed.refused_checkpoints |= self._of.policies.restore(self._of.feed.checkpoints, until)
            self._report_checkpoints()
        self._count_earlier(past, until)
        if isinstance(self._of.history, PrometheusHistory):
            self.stretch, self.minutes = past.stretch, self._of.history.step / 60.0
        log.info("history: %d samples of %d containers", past.samples, len(past.seen))
        self.missing = ""

    def _count_earlier(self, past: Past, started: Seconds) -> None:
        """Counts kills from before the start, unless the history or a checkpoint includes them, or they are too old."""
        within = self._of.history.step if isinstance(self._of.history, PrometheusHistory) else 1.0
        written = self._of.feed.checkpointed() if self._of.history.writes_checkpoints else {}
        oldest = started - self._of.config.model.memory_aggregation_interval

        def known(kill: Oom) -> bool:
            seen = max(oldest, written.get((kill.namespace, kill.container), oldest))
            return kill.instant < seen or past.knows(kill, within)

        self._of.feed.count_earlier(known)

    def _report_checkpoints(self) -> None:
        for id, words in self._of.feed.refused_checkpoints.items():
            vpa = self._of.cluster.vpas.get(id)
            if vpa is not None:
                self._of.events.record(dict(vpa.object), "Warning", "CheckpointUnusable", words)

    def minutes_beyond(self, vpa: Vpa) -> Mapping[str, float]:
        """The minutes that samples of the history represent beyond the one minute that each counts for, by
        container."""
        found: dict[str, float] = {}
        for key in vpa.aggregates if self.stretch else ():
            if key in self.stretch:
                more = self.stretch[key] * max(0.0, self.minutes - 1.0)
                found[key.container] = found.get(key.container, 0.0) + more
        return found


class UsageLoader:
    def __init__(self, recommender: Recommender) -> None:
        self._of = recommender
        self.missing = ""
        """Why the metrics API does not answer, or empty."""
        self.killed: set[tuple[str, str]] = set()
        """(namespace, container) with an out-of-memory kill since the start."""

    async def load(self) -> None:
        now = self._of.clock.now()
        assert self._of.cluster.fleet is not None
        if healed := usage.heal_clock(self._of.cluster.fleet, now):
            log.warning("the clock moved back: samples of %d containers are collected from scratch", healed)
        used: usage.Used = []
        try:
            used = await self._fetch_usage()
            self.missing = ""
            if isinstance(used, Numbers):
                self._of.feed.note_counters(used.oom_ends)
        except usage.UsageUnavailable as error:
            if not self.missing:
                log.warning("no usage: %s", error)
            self.missing = str(error)
        self._of.measures.usage_answered(bool(self.missing))
        # Other tasks run during this loop, and may add pods. Deleted pods are dropped only after it.
        turns = TimeSlice(self._of.clock)
        for found in usage.in_parts(used, self._of.cluster, now, self._of.feed.gone):
            self._of.measures.quality.scraped(found, self._of.cluster.fleet)
            note_starved(found, self._of.cluster.fleet, self._of.starvation, self._of.config.model)
            self._of.policies.scraped(found)
            self._of.measures.samples.inc(usage.ingest(found, self._of.cluster.fleet))
            if self._of.history.keeps_samples:
                self._of.history.record(found.batch())
            if turns.over():
                await turns.give()
        ooms = [oom for oom in self._drained() if self._count_oom(oom)]
        if not self._of.history.keeps_samples:
            return
        self._of.history.record(usage.ooms_alone(ooms))
        try:
            await self._of.history.flush()
        except HistoryUnavailable as error:
            log.warning("history: %s", error)

    async def _fetch_usage(self) -> usage.Used:
        if self._of.config.use_external_metrics:
            return await external.fetch(self._of.client, self._of.cluster, self._of.config)
        return await usage.fetch(self._of.client, self._of.config.vpa_object_namespace)

    def _drained(self) -> list[Oom]:
        found = list(self._of.feed.ooms)
        self._of.feed.ooms.clear()
        return found

    def _count_oom(self, oom: Oom) -> bool:
        pod = self._of.cluster.pod((oom.namespace, oom.pod))
        outcome = "counted"
        try:
            needed = self._of.cluster.record_oom((oom.namespace, oom.pod), oom.container, oom.instant, oom.memory)
            self.killed.add((oom.namespace, oom.container))
            state = self._of.cluster.aggregate_of((oom.namespace, oom.pod), oom.container)
            self._of.measures.quality.ran_out(state, needed)
            self._of.policies.killed(state, oom.instant, needed)
        except OomRefused as error:
            outcome = "refused"
            log.info("%s", error)
        except UnknownTarget:
            outcome = "unknown"
        self._of.measures.ooms.labels(outcome).inc()
        if pod is not None:
            self._of.ledger.note_oom(oom, pod.label_text, outcome)
        return outcome == "counted"
