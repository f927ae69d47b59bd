"""The updater: in every interval it changes pods to their recommendation, in place first, within all guard rails.

observe (caches) → decide (pure, one generator per autoscaler) → act (after checking capacity, and whether changes are
stopped) → report (metrics, Events, why-not).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.client import Client, EventRecorder
from podfit.client.cache import key_of
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.routes import Info
from podfit.vpa.model.changing.horizontal import horizontal_resources, scaled_horizontally, without
from podfit.vpa.model.changing.jsonpatch import Patch
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.objects.matching import by_target, controlling_vpa
from podfit.vpa.model.objects.policy import recommends_for
from podfit.vpa.model.similar import own_only
from podfit.vpa.observe import trims
from podfit.vpa.observe.caches import Caches
from podfit.vpa.observe.change_stops import ChangeStops
from podfit.vpa.observe.headroom import SCHEDULED, UNSCHEDULED, Headroom
from podfit.vpa.observe.live_recommendations import LiveRecommendations, keeping_others, query_by
from podfit.vpa.observe.scales import Scales
from podfit.vpa.observe.targets import Targets
from podfit.vpa.serve.bucket import Bucket
from podfit.vpa.serve.http import Health, HttpServer
from podfit.vpa.serve.profiling import add_profiling
from podfit.vpa.serve.requests import measured
from podfit.vpa.updater.acting.act import UpdaterWrites
from podfit.vpa.updater.acting.allowing import Allowing
from podfit.vpa.updater.acting.gates import Gates
from podfit.vpa.updater.acting.reflexes import Reflexes
from podfit.vpa.updater.acting.restarts import Restarts
from podfit.vpa.updater.acting.undo import Lowered, Undo
from podfit.vpa.updater.acting.webhook import Webhook
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.decide.groups import creator_of
from podfit.vpa.updater.decide.one_pass import ClusterView, controlled_pods
from podfit.vpa.updater.decide.pacing.rollout import Rollout
from podfit.vpa.updater.decide.pacing.steady import StableTargets
from podfit.vpa.updater.decide.restriction import Attempts
from podfit.vpa.updater.measures import UpdaterMeasures
from podfit.vpa.updater.one_vpa import update_one
from podfit.vpa.updater.oversized import Oversized
from podfit.vpa.updater.skip_reasons import SkipReasons
from podfit.vpa.updater.urgent import NOT_NOW, UrgentVpas
from podfit.vpa.updater.vpa_pass import VpaPass

log = logging.getLogger(__name__)

VpaId = tuple[str, str]
WHY_NOT = "/why-not/{namespace}/{name}"


class Updater:
    def __init__(
        self,
        client: Client,
        config: UpdaterConfig | None = None,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self.config = config or UpdaterConfig()
        client = self.client = measured(client, self.registry, self.config)
        self.clock: Clock = clock or RealClock()
        self.caches = Caches(
            client, self.clock, self.config.vpa_object_namespace, self.config.ignored_vpa_object_namespaces
        )
        self.pods = self.caches.follow_pods(SCHEDULED)
        self.limit_ranges = self.caches.follow(kind_named("LimitRange"))
        self.hpas = self.caches.follow(kind_named("HorizontalPodAutoscaler"))
        self._unscheduled = self.caches.follow(POD, trims.pod, {}, fieldSelector=UNSCHEDULED)
        nodes, quotas = self.caches.follow(NODE, indexes={}), self.caches.follow(kind_named("ResourceQuota"))
        self.headroom = Headroom(nodes, self.pods, quotas, self._unscheduled)
        self.stops = ChangeStops(
            self.caches, self.config.panic_namespace, self.config.panic_name, self.config.maintenance_windows
        )
        self._query = query_by(self.config.recommender_url, client)
        self.live = LiveRecommendations(self._query, self.config.recommender_timeout, self.clock)
        self.scales = Scales(client, self.clock)
        self.targets = Targets(self.caches, self.scales)
        self.events = EventRecorder(client, "vpa-updater", clock=self.clock)
        self.gates = Gates(
            client,
            self.clock,
            self.limit_ranges,
            self._vertical_in,
            self.targets,
            self.stops,
            self.headroom,
            self.events,
        )
        self.webhook = Webhook(client, self.config, self.clock)
        self.oversized = Oversized(client, self.clock)
        self.writes = UpdaterWrites(client, self.events)
        budgets = self.caches.follow(kind_named("PodDisruptionBudget"))
        self.restarts = Restarts(self.writes, budgets, self.pods, self.clock, self.config.in_progress_timeout)
        self.undo = Undo(client, self.config, self.clock, self._give_back)
        self.measures = UpdaterMeasures(self.registry, self.clock)
        self.health = Health(self.clock, self.config.updater_interval)
        self.http = HttpServer(self.config.address, self.registry, self.health)
        if self.config.profiling:
            add_profiling(self.http, self.clock)
        self.http.add("GET", WHY_NOT, self.why_not)
        self.skip_reasons = SkipReasons(self.events)
        self.stable = StableTargets(self.config.scale_down_delay)
        self.budget = Bucket(self.config.changes_per_minute / 60.0, self.config.changes_per_minute, self.clock)
        rate, burst = self.config.eviction_rate_limit, self.config.eviction_rate_burst
        self.eviction_rate, self.resize_rate = Bucket(rate, burst, self.clock), Bucket(rate, burst, self.clock)
        self.waiting: dict[str, float] = {}
        """Since when the cluster has had no capacity for a pod's resize, by UID."""
        self._attempts: dict[VpaId, Attempts] = {}
        self.urgent = UrgentVpas()
        self.allowing, self.reflexes = Allowing(self), Reflexes(self)
        self.tasks = Tasks("vpa-updater")
        self.passes = 0

    # --- running

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            await self.start()
            while True:
                due = self.clock.monotonic() + self.config.updater_interval
                while await self.urgent.before(self.clock, due):
                    await self._kept_going(self.urgent_pass())
                await self._kept_going(self.one_pass())
        finally:
            await self.stop()

    @staticmethod
    async def _kept_going(work: Awaitable[None]) -> None:
        try:
            await work
        except Exception:
            log.exception("a pass of the updater failed")

    async def start(self) -> None:
        self.tasks.start(self.events.run(), "events")
        await self.http.start()
        await self.caches.start()
        self.headroom.start()
        self.pods.subscribe(self.undo.on_pod)
        self.pods.subscribe(self.reflexes.on_pod)
        self.pods.subscribe(self.allowing.on_pod)
        self.caches.vpas.subscribe(self.allowing.on_vpa)
        self.gates.start(self._unscheduled, (self.caches.vpas, *self.caches.workloads.values()))
        self.tasks.start(self.gates.run(), "gates")
        self.tasks.start(self.undo.run(), "undo")
        if self.config.update_starved_at_once:
            self.caches.vpas.subscribe(self.urgent.on_vpa)

    async def stop(self) -> None:
        await self.tasks.stop()
        await self.writes.stop()
        if self._query is not None:
            await self._query.close()
        await self.caches.stop()
        await self.http.stop()

    async def one_pass(self) -> None:
        step, now = self.measures.steps.step, self.clock.now()
        self.measures.begin()
        with step("total"):
            with step("ListVPAs"):
                vpas = self._vpas(now)
            with step("ListPods"):
                pods = list(self.pods)
            with step("FilterPods"):
                world = self.view_of(vpas, pods)
                controlled = controlled_pods(world)
                if self.scales.wanted.is_set():
                    await self.scales.refresh()
                    controlled = controlled_pods(world)
                controlled = await self._live(controlled, now)
            with step("AdmissionInit"):
                self._note_successors(vpas, now)
                no_eviction = await self.webhook.unavailable()
            with step("EvictPods"):
                self.restarts.begin()
                await self._update_all(world, controlled, now, no_eviction)
            await self.oversized.report(self.caches.watched_vpas(), self.headroom.ledger)
            await self.gates.open()
            await self.undo.check_throttling(lambda key: self.pods.get(*key))
            await self.scales.refresh()
        await self.writes.settle()
        self._forget(controlled)
        for reason, count in self.skip_reasons.counts().items():
            self.measures.left_alone.labels(reason).set(count)
        self.passes += 1
        self.health.alive()

    async def urgent_pass(self) -> None:
        """Resizes pods of autoscalers with newly starved containers, and evicts none."""
        ids, now = self.urgent.take(), self.clock.now()
        namespaces = {namespace for namespace, _ in ids}
        # All autoscalers of the namespaces are needed: a pod may belong to another one.
        near = [vpa for vpa in self.caches.watched_vpas() if vpa["metadata"].get("namespace", "") in namespaces]
        pods = [pod for pod in self.pods if pod["metadata"].get("namespace", "") in namespaces]
        world = self.view_of(self._decided_on(near, now), pods)
        concerned = [(vpa, pods) for vpa, pods in controlled_pods(world) if key_of(dict(vpa)) in ids]
        await self._update_all(world, await self._live(concerned, now), now, NOT_NOW, hurried=True)
        await self.writes.settle()

    # --- observing

    def _vpas(self, now: float) -> list[Mapping[str, Any]]:
        """The autoscalers that decisions are based on: without horizontally scaled resources, and with targets that
        fall slowly."""
        found = self.caches.watched_vpas()
        self.stable.forget({(vpa["metadata"].get("namespace", ""), vpa["metadata"]["name"]) for vpa in found})
        return self._decided_on(found, now)

    def _decided_on(self, found: list[Any], now: float) -> list[Mapping[str, Any]]:
        scaled, labels_of = scaled_horizontally(self.hpas), self.targets.template_labels
        return [
            self.stable.settle(without(own_only(vpa), horizontal_resources(vpa, scaled, labels_of)), now)
            for vpa in found
        ]

    def _vertical_in(self, namespaces: Collection[str]) -> list[Mapping[str, Any]]:
        """The autoscalers of these namespaces, without horizontally scaled resources."""
        scaled, labels_of = scaled_horizontally(self.hpas), self.targets.template_labels
        found = [vpa for namespace in namespaces for vpa in self.caches.watched_vpas_in(namespace)]
        return [without(vpa, horizontal_resources(vpa, scaled, labels_of)) for vpa in found]

    async def _live(self, controlled: list[tuple[Any, list[Any]]], now: float) -> list[tuple[Any, list[Any]]]:
        """The autoscalers with the recommender's current recommendation, which is queried once for each; if that fails,
        with the one in their status."""
        if self._query is None:
            return controlled
        gate = asyncio.Semaphore(self.config.workers)
        scaled, labels_of = scaled_horizontally(self.hpas), self.targets.template_labels

        async def improved(vpa: Any, pods: list[Any]) -> tuple[Any, list[Any]]:
            async with gate:
                fresh = await self.live.improve(pods[0], vpa)
            if fresh is vpa:
                return vpa, pods
            fresh = keeping_others(vpa, own_only(fresh))
            return self.stable.settle(without(fresh, horizontal_resources(fresh, scaled, labels_of)), now), pods

        return list(await asyncio.gather(*(improved(vpa, pods) for vpa, pods in controlled)))

    def view_of(self, vpas: list[Mapping[str, Any]], pods: list[Any]) -> ClusterView:
        ranges = list(self.limit_ranges)
        targets = self.targets
        anyway = self.config.change_without_recommendation
        return ClusterView(vpas, pods, targets.selector_of, targets.topmost_of, targets.replicas_of, ranges, anyway)

    def _note_successors(self, vpas: list[Mapping[str, Any]], now: float) -> None:
        """Starts a pass of the capacity account, and checks whether the successors of evicted pods were sized."""
        come = self.headroom.begin(now, self.targets.wanted_of)
        index = by_target(vpas) if come else {}
        for _, pod in come:
            vpa = controlling_vpa(pod, index, self.targets.selector_of, self.targets.topmost_of)
            if vpa is not None and recommends_for(vpa, pod) and self.stops.frozen(vpa) is None:
                self.webhook.came(pod)

    # --- acting

    async def _update_all(
        self,
        world: ClusterView,
        controlled: list[tuple[Any, list[Any]]],
        now: float,
        no_eviction: Wait | None,
        hurried: bool = False,
    ) -> None:
        gate = asyncio.Semaphore(self.config.workers)
        deadline = self.clock.monotonic() + self.config.updater_interval

        async def update(vpa: Any, pods: list[Any]) -> None:
            async with gate:
                id = vpa["metadata"].get("namespace", ""), vpa["metadata"]["name"]
                attempts = self._attempts.setdefault(id, Attempts())
                try:
                    rollout = Rollout(vpa, pods, now, self.config.rolling_settle, self._awaited(pods))
                    parts = attempts, now, deadline, no_eviction, rollout, hurried
                    await update_one(VpaPass(self, world, vpa, pods, *parts))
                except Exception:
                    # An autoscaler that fails must not affect the others.
                    log.exception("autoscaler %s/%s", *id)

        await asyncio.gather(*(update(vpa, pods) for vpa, pods in controlled))

    def _awaited(self, pods: list[Any]) -> int:
        """The number of pods of the same controllers that were evicted and have no successor yet."""
        controllers = {tuple(creator_of(pod)) for pod in pods}
        return sum(successor.controller in controllers for successor in self.headroom.successors)

    async def _give_back(self, lowered: Lowered, patch: Patch, why: str) -> None:
        if self.stops.holding(lowered.vpa) is not None:
            # A freeze prevents every change, including an undo.
            return
        await self.writes.give_back(lowered.pod, lowered.vpa, patch, why)
        meta = lowered.vpa["metadata"]
        self.measures.undone.labels(meta["name"], meta.get("namespace", "")).inc()

    def _forget(self, controlled: list[tuple[Any, list[Any]]]) -> None:
        alive = {(vpa["metadata"].get("namespace", ""), vpa["metadata"]["name"]) for vpa, _ in controlled}
        self._attempts = {id: kept for id, kept in self._attempts.items() if id in alive}
        self.skip_reasons.forget(alive)
        uids = {pod["metadata"].get("uid") for _, pods in controlled for pod in pods}
        self.waiting = {uid: since for uid, since in self.waiting.items() if uid in uids}
        self.reflexes.forget(uids)

    async def why_not(self, request: web.BaseRequest, info: Info) -> web.Response:
        id = info["namespace"], info["name"]
        found = self.skip_reasons.of(id)
        if found is None:
            message = f"no pod is controlled by autoscaler {id[0]}/{id[1]}"
            return web.json_response({"kind": "Status", "message": message}, status=404)
        return web.json_response(found)
