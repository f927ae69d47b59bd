"""The recommender: in every interval it reads usage and events, sizes every autoscaler and writes changes.

observe (caches, usage, events) → decide (pure, all autoscalers at once) → act (statuses, checkpoints) → report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.client import Client, EventRecorder
from podfit.kit.clock import Clock, RealClock, rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.vpa.history.base import History, NoHistory
from podfit.vpa.history.prometheus import PrometheusHistory
from podfit.vpa.model.changing.horizontal import horizontal_resources, scaled_horizontally
from podfit.vpa.model.objects.pods import annotations_of
from podfit.vpa.model.objects.policy import IN_PLACE_MODES, update_mode
from podfit.vpa.model.similar import FROM_SIMILAR, borrowed_resources
from podfit.vpa.model.times import Seconds, from_rfc3339
from podfit.vpa.observe.caches import Caches
from podfit.vpa.observe.scales import Scales
from podfit.vpa.observe.targets import Targets
from podfit.vpa.policies.prices import priced
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.decide.evidence.loans import lent_to
from podfit.vpa.recommender.decide.evidence.samples import kept_containers, missing_samples, spans_of
from podfit.vpa.recommender.decide.evidence.starvation import Need, Starvation, raised
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa, VpaId
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.recommender.decide.histograms.groupsize import for_group
from podfit.vpa.recommender.decide.status import Condition, Outcome, outcome, reported
from podfit.vpa.recommender.intake.feed import Feed
from podfit.vpa.recommender.intake.loading import PastLoader, UsageLoader
from podfit.vpa.recommender.intake.policies import Policies
from podfit.vpa.recommender.ledger import RecentChanges
from podfit.vpa.recommender.measures import PolicyQuality, Recommendations, RecommenderMeasures
from podfit.vpa.recommender.notes import (
    OVERRULED,
    capped_by_limits,
    extra_conditions,
    metrics_gone,
    missing_since,
    newly_overruled,
    policy_failed,
    starved,
    trust_of,
)
from podfit.vpa.recommender.plugins import WORKLOAD, plugin_for, sizes_by_plugin
from podfit.vpa.recommender.serving.answers import Answers
from podfit.vpa.recommender.serving.explain import settings_note
from podfit.vpa.recommender.serving.extension import Extension
from podfit.vpa.recommender.similar import Loans, similar_condition
from podfit.vpa.recommender.writes import Checkpoints, write_statuses
from podfit.vpa.runtimes.floors import with_floors
from podfit.vpa.runtimes.heaps import Heap
from podfit.vpa.runtimes.squeezed import squeezed, working_sets
from podfit.vpa.serve.http import Health, HttpServer
from podfit.vpa.serve.profiling import add_profiling
from podfit.vpa.serve.requests import measured

log = logging.getLogger(__name__)

HISTORY_TIMEOUT_S = 30.0
"""How long the first pass waits for the history; after that, loading continues in parallel."""
STALE_S, STALE_PASSES = 300.0, 5
"""The minimum time, and the number of passes, for which a container may be without a new sample."""
STARVED_S = 15.0
"""The time until the next pass after a container has begun to use up its CPU limit, if the interval is longer."""
Seen = tuple[Any, ...]


class Recommender:
    def __init__(
        self,
        client: Client,
        config: RecommenderConfig | None = None,
        history: History | None = None,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self.config = config or RecommenderConfig()
        client = self.client = measured(client, self.registry, self.config)
        self.history: History = history or NoHistory()
        self.clock: Clock = clock or RealClock()
        self.cluster = ClusterState(self.config.model, Fleet(self.config.model))
        self.caches = Caches(
            client, self.clock, self.config.vpa_object_namespace, self.config.ignored_vpa_object_namespaces
        )
        self.hpas = self.caches.follow(kind_named("HorizontalPodAutoscaler"))
        self.scales = Scales(client, self.clock)
        self.targets = Targets(self.caches, self.scales)
        self.feed = Feed(self.caches, self.targets, self.cluster, self.config)
        self.events = EventRecorder(client, "vpa-recommender", clock=self.clock)
        self.measures = RecommenderMeasures(self.registry, self.clock)
        if isinstance(self.history, PrometheusHistory):
            self.history.api.measured = self.measures.prometheus_asked
        self.registry.register(Recommendations(self._sizes))
        self.health = Health(self.clock, self.config.recommender_interval)
        self.http = HttpServer(self.config.address, self.registry, self.health)
        if self.config.profiling:
            add_profiling(self.http, self.clock)
        self.ledger = RecentChanges()
        Answers(self).serve(self.http)
        self.extension = Extension(self)
        self.checkpoints = Checkpoints(
            client,
            self.feed.checkpoints,
            self.clock,
            self.config.update_worker_count,
            self.measures,
            lambda vpa: settings_note(self.config.model, self.plugin_of(vpa), self.http.url_here),
            lambda vpa, container: "" if self.history.keeps_samples else self.policies.saved(vpa, container),
        )
        self.starvation = Starvation(self.config.model)
        self.policies = Policies(
            self.cluster, self.plugin_of, self.config.shadow_policies, priced(self.config.policy_costs)
        )
        self.registry.register(PolicyQuality(lambda: self.policies.live.totals()))
        self.passes = 0
        self.past, self.usage = PastLoader(self), UsageLoader(self)
        self._started = self.clock.now()
        self._outcomes: dict[VpaId, tuple[Seen, Outcome]] = {}
        self._loans: dict[VpaId, Loans] = {}
        self._inactive: Mapping[VpaId, str] = {}
        self._collected = float("-inf")
        self._tasks = Tasks("vpa-recommender")

    # --- running

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            await self.start()
            while True:
                try:
                    await self.one_pass()
                except Exception:
                    log.exception("a pass of the recommender failed")
                await self.clock.sleep(self.rest_s())
        finally:
            await self.stop()

    def rest_s(self) -> float:
        """The time until the next pass. It is short after a container became starved, because its new size may still be
        too small."""
        interval = self.config.recommender_interval
        if self.starvation.begun_after(self.clock.now() - 2 * interval):
            return min(interval, STARVED_S)
        return interval

    async def start(self) -> None:
        """Waits for the caches, then for the history; then passes may run."""
        self._tasks.start(self.events.run(), "events")
        await self.http.start()
        if self.config.secure_address:
            self._tasks.start(self.extension.run(), "recommendation.podfit.dev")
        await self.caches.start()
        # Autoscalers are added first, so that pods find theirs by label and no autoscaler scans all pods.
        await self._load_vpas()
        self.feed.start()
        loading = self._tasks.start(self.past.load(), "history")
        await asyncio.wait({loading}, timeout=HISTORY_TIMEOUT_S if not self.past.missing else 0)

    async def stop(self) -> None:
        try:
            await self._tasks.stop()
            await self.caches.stop()
            await self.http.stop()
            await self.extension.stop()
        finally:
            await self.history.close()

    async def one_pass(self) -> None:
        step = self.measures.steps.step
        with step("total"):
            with step("LoadVPAs"):
                await self._load_vpas()
            with step("LoadPods"):
                self.measures.aggregates.set(self.cluster.aggregates_known)
            with step("LoadMetrics"):
                await self.usage.load()
            with step("UpdateVPAs"):
                if not self.past.missing:
                    await self.policies.refresh(self.clock.now())
                await self._update_vpas()
            with step("MaintainCheckpoints"):
                await self._maintain_checkpoints()
            with step("GarbageCollect"):
                self.feed.forget_gone()
                self.feed.collect_garbage(self.clock.now())
        self.passes += 1
        self.health.alive()

    # --- observing

    async def _load_vpas(self) -> None:
        self.feed.sync_vpas()
        if self.scales.wanted.is_set():
            await self.scales.refresh()
            self.feed.sync_vpas()
        else:
            await self.scales.refresh()
        self.ledger.forget(self.cluster.vpas)

    # --- deciding

    async def _update_vpas(self) -> None:
        outcomes = self.decide()
        failed = await write_statuses(self.client, outcomes, self.config.update_worker_count, self.measures)
        for id in failed:
            self._outcomes.pop(id, None)
        self._report(outcomes)

    def decide(self) -> dict[VpaId, Outcome]:
        """The outcome for every autoscaler; unchanged ones are not recomputed."""
        chosen = self.policies.follow()
        sizes = sizes_by_plugin(self.cluster, chosen)
        self.policies.apply(sizes)
        needs = self._starved(sizes)
        if self.config.model.small_group_margin:
            sizes = {
                id: {
                    name: for_group(group, len(self.cluster.vpas[id].pods), self.config.model)
                    for name, group in of.items()
                }
                for id, of in sizes.items()
            }
        self._adjust_memory(sizes)
        scaled, labels_of = scaled_horizontally(self.hpas), self.targets.template_labels
        now = self.clock.now()
        self._inactive = self.feed.rivals.inactive()
        self.cluster.stamp_created(now)
        self._loans = {}
        self._outcomes = {
            id: self._decided(
                vpa, sizes[id], horizontal_resources(vpa.object, scaled, labels_of), now, starved(needs.get(id))
            )
            for id, vpa in self.cluster.vpas.items()
        }
        return {id: decided for id, (_, decided) in self._outcomes.items()}

    def needs_of(self, vpa: Vpa) -> dict[str, Need]:
        """The needs of the autoscaler's starved containers, by name. Only lasting starvation justifies an eviction."""
        return self.starvation.needs(vpa, sustained=update_mode(vpa.object) not in IN_PLACE_MODES)

    def _adjust_memory(self, sizes: dict[VpaId, dict[str, Estimate]]) -> None:
        """Adjusts memory sizes to squeeze probes and heap settings."""
        for id, vpa in self.cluster.vpas.items():
            if found := self.working_sets(vpa):
                sizes[id] = squeezed(sizes[id], found, self.config.model.recommendation_margin_fraction)
            if heaps := self.heaps_of(vpa):
                sizes[id] = with_floors(sizes[id], heaps)

    def working_sets(self, vpa: Vpa) -> dict[str, int]:
        """The working sets that squeeze probes measured, by container, if the autoscaler enables probes."""
        return working_sets(vpa.object, (self.feed.pods.get(*id) for id in vpa.pods))

    def heaps_of(self, vpa: Vpa) -> dict[str, Heap]:
        """The configured heaps, by container; empty if heap settings are ignored."""
        return self.feed.heaps.of(vpa.pods) if self.config.model.respect_heap_settings else {}

    def loans_of(self, vpa: Vpa) -> Loans:
        """The loans of the last pass, by container."""
        return self._loans.get(vpa.id, {})

    def _starved(self, sizes: dict[VpaId, dict[str, Estimate]]) -> dict[VpaId, dict[str, Need]]:
        """Raises the sizes of starved containers, and returns their needs."""
        found: dict[VpaId, dict[str, Need]] = {}
        if not self.starvation:
            return found
        self.starvation.forget(self.cluster.has_aggregate)
        for id, vpa in self.cluster.vpas.items():
            if needs := self.needs_of(vpa):
                found[id] = needs
                for name in needs.keys() & sizes[id].keys():
                    sizes[id][name] = raised(sizes[id][name], needs[name], self.config.model)
        return found

    def _decided(
        self, vpa: Vpa, sizes: dict[str, Estimate], scaled: Mapping[str, str], now: Seconds, starved: Condition
    ) -> tuple[Seen, Outcome]:
        config, spans = self.cluster.config, spans_of(vpa)
        stale_s = max(STALE_S, STALE_PASSES * self.config.recommender_interval)
        killed = [name for name in spans if (vpa.id[0], name) in self.usage.killed] if self.usage.killed else ()
        kept = kept_containers(vpa, spans, self._started - stale_s, config, killed, bool(self.past.missing))
        loans = self.feed.similar.loans(vpa, spans, sizes, self.plugin_of, now)
        kept = kept.difference(loans)
        if loans:
            self._loans[vpa.id] = loans
        missing = missing_samples(self.cluster, vpa, spans, sizes, kept, now - stale_s, loans)
        since = missing_since(vpa, missing, now) if missing.never or self.usage.missing else ""
        sized = {*sizes, *kept, *loans} if kept or loans else sizes
        extra = extra_conditions(
            vpa,
            trust=trust_of(spans, sized, config, self.past.minutes_beyond(vpa)),
            low_below=self.config.low_confidence_below,
            fetching=self.past.missing,
            metrics=metrics_gone(vpa, missing, self.usage.missing, since, now - stale_s),
            scaled=scaled,
            starved=starved,
            winner=self._inactive.get(vpa.id, ""),
            capped=capped_by_limits(vpa, self.feed.pods.get),
            similar=similar_condition(vpa, loans, kept),
            policy=policy_failed(self.policies.problems.get(vpa.id, "")),
        )
        words = missing.never_message(since) if missing.never else ""
        version = vpa.object["metadata"].get("resourceVersion")
        given = lent_to(sizes, {name: lent for name, (_, lent) in loans.items()}) if loans else sizes
        given = with_floors(given, self.heaps_of(vpa)) if loans else given
        seen = (sizes, given, version, vpa.unsupported, bool(vpa.pods), extra, words, kept)
        before = self._outcomes.get(vpa.id)
        if before is not None and before[0] == seen and before[1].patch is None:
            return before
        own = {name: sizes.get(name) for name in loans}
        decided = outcome(vpa, given, config, rfc3339(now), extra, words, kept, own)
        return seen, reported(decided, rfc3339(now))

    def plugin_of(self, vpa: Vpa) -> str:
        named = (vpa.object.get("spec") or {}).get("recommenders")
        if not named and WORKLOAD not in annotations_of(vpa.object):
            return plugin_for(vpa, self.config.recommender_name, ())
        pods = [pod for id in vpa.pods if (pod := self.feed.pods.get(*id)) is not None]
        policies = [(pod.get("spec") or {}).get("restartPolicy") or "Always" for pod in pods]
        return plugin_for(
            vpa, self.config.recommender_name, policies, [annotations_of(pod).get(WORKLOAD) or "" for pod in pods]
        )

    def recommendation_of(self, vpa: Vpa) -> Mapping[str, Any]:
        known = self._outcomes.get(vpa.id)
        status = known[1].status if known is not None else vpa.object.get("status") or {}
        return status.get("recommendation") or {}

    def with_similar(self, vpa: Mapping[str, Any], pod: Object, given: list[Any]) -> dict[str, Any]:
        """A recommendation from the given sizes, with sizes from similar containers for the pod's other containers.

        The result names the containers whose sizes come from similar ones, as an autoscaler's condition does.
        """
        known = {entry["containerName"] for entry in given}
        # An autoscaler of another recommender gets its recommendation from that one.
        handled = self.config.handles(vpa)
        lent = self.feed.similar.for_pod(vpa, pod, known, self.clock.now()) if handled else []
        entries = [*given, *lent]
        found = {"containerRecommendations": entries} if entries else {}
        borrowed = [entry["containerName"] for entry in entries if borrowed_resources(entry)]
        return {**found, FROM_SIMILAR: borrowed} if borrowed else found

    # --- reporting

    def _sizes(self) -> Iterator[tuple[VpaId, Mapping[str, Any]]]:
        for id, (_, decided) in self._outcomes.items():
            yield id, decided.status.get("recommendation") or {}

    def _report(self, outcomes: Mapping[VpaId, Outcome]) -> None:
        now = self.clock.now()
        for id, decided in outcomes.items():
            vpa = self.cluster.vpas.get(id)
            if decided.patch is None or vpa is None:
                continue
            self.ledger.note_change(id, now, decided.status["recommendation"], self.plugin_of(vpa))
            before = (vpa.object.get("status") or {}).get("recommendation") or {}
            created = vpa.object["metadata"].get("creationTimestamp")
            if decided.status["recommendation"] and not before and created:
                self.measures.latency.observe(max(0.0, now - from_rfc3339(created)))
            if words := newly_overruled(vpa, decided.status):
                self.events.record(dict(vpa.object), "Warning", OVERRULED, words)
            if self.usage.missing and before:
                words = f"The resource metrics API does not answer: {self.usage.missing}"
                self.events.record(dict(vpa.object), "Warning", "MetricsUnavailable", words)
        sizes = dict(self._sizes())
        self.measures.objects(self.cluster, sizes)
        self.measures.quality.recommended(self.cluster, sizes)

    async def _maintain_checkpoints(self) -> None:
        now = self.clock.now()
        if self.past.missing or not self.history.writes_checkpoints:
            return
        await self.checkpoints.write(self.cluster, now, self.config.checkpoints_timeout)
        if now - self._collected >= self.config.checkpoints_gc_interval:
            self._collected = now
            await self.checkpoints.collect(
                lambda id: self.caches.vpas.get(*id) is not None, lambda namespace: namespace not in self.caches.ignored
            )
