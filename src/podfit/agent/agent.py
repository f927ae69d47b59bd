"""The node agent: startup, shutdown, and the interface for its server and tests. `build` constructs its components."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from podfit.agent.actuation.drift import Drift
from podfit.agent.build import Outside, build
from podfit.agent.calls import Calls
from podfit.agent.config import AgentConfig
from podfit.agent.containers.probing import Probing
from podfit.agent.core import Core
from podfit.agent.furnish.volumes.volumes import remove_memory_volumes
from podfit.agent.images.collector import ImageCollector
from podfit.agent.loop import Loop
from podfit.agent.metrics import AgentMetrics
from podfit.agent.node.disk_usage import DiskMeter
from podfit.agent.node.node import NodeKeeper
from podfit.agent.node.pressure import PressureResponse, PressureWatch, machine_readings
from podfit.agent.node.reclaim import Reclaimer
from podfit.agent.node.runtime_watch import RuntimeWatch
from podfit.agent.pods.events import Events
from podfit.agent.pods.ledger import Ledger
from podfit.agent.pods.record import PodRecord
from podfit.agent.queue import PassQueue
from podfit.agent.reflex.reflex import Reflex
from podfit.agent.roster.roster import is_mirror
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RuntimeEvent, RuntimeFailure
from podfit.agent.squeeze.squeeze import Squeeze
from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.client.cache import Cache
from podfit.client.recording.events import EventRecorder
from podfit.client.rest import Client
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.reconcile.result import Result

log = logging.getLogger(__name__)


class Agent:
    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        config: AgentConfig,
        clock: Clock | None = None,
        metrics: AgentMetrics | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.client, self.runtime, self.config = client, runtime, config
        self.clock: Clock = clock or RealClock()
        self.metrics = metrics or AgentMetrics()
        self.records: dict[str, PodRecord] = {}
        self.ledger = ledger or Ledger(config.data_dir / "ledger", config.durable)
        self.synced = asyncio.Event()
        """Set once the API's pods are known and pods that were already running are adopted."""
        self.listeners: list[Callable[[RuntimeEvent], None]] = []
        """Called with every runtime event."""
        self.at_stop: list[Callable[[], Awaitable[None]]] = []
        """Stopped with the agent, before it stops working on its pods."""
        self._tasks = Tasks(f"agent-{config.node_name}")
        self._recorder = EventRecorder(client, "kubelet", config.node_name, self.clock)
        self.events = Events(self._recorder)
        self.node = NodeKeeper(client, runtime, config, self.clock, self._tasks)
        self._cache = Cache(client, POD, clock=self.clock, fieldSelector=f"spec.nodeName={config.node_name}")
        calls = Calls(runtime, self.metrics, self.clock)
        self.counted = calls.counted()
        """The runtime as used by the agent's components; hooks and probes use a wrapper of their own."""
        self._core = Core(
            config,
            self.clock,
            self.counted,
            self.ledger,
            self.events,
            self.metrics,
            self._tasks,
            PassQueue(self.clock),
        )
        built = build(self._core, Outside(client, runtime, calls.commands(), self.node, self.records))
        self.volumes, self.maker = built.furniture.volumes, built.furniture.maker
        self._services, self._redirect = built.furniture.services, built.furniture.redirect
        self.cpus, self.allocations, self.allocator = (
            built.allocation.cpus,
            built.allocation.allocations,
            built.allocation.allocator,
        )
        self.roster, self._static, self._expected = (
            built.tracking.roster,
            built.tracking.static,
            built.tracking.expected,
        )
        self.parts = built.parts
        self._loop = Loop(self.records, built.parts)
        self.drift = Drift(self._core, self.records, runtime)
        self.images = ImageCollector(
            self.counted, self.node, self._recorder, config.image_policy, self.clock, built.images.pull_records.keep
        )
        meter = DiskMeter(self.records, runtime, self.volumes, self.maker.log_folder, self.images.delete_unused)
        reclaimer = Reclaimer(self._core, self.records, built.allocation.evictions, meter)
        self.pressure = PressureWatch(
            self.node,
            self.clock,
            lambda: machine_readings(config.data_dir, self.ledger),
            config.eviction_hard,
            PressureResponse(self.allocator.on_pressure_relieved, reclaimer.relieve, meter.reclaim, reclaimer.enforce),
        )
        self.reflex = Reflex(client, runtime, self.events, self.clock, self._tasks)
        self.squeeze = Squeeze(client, runtime, self.clock, self._tasks)
        self.node.use_range()

    # --- lifecycle
    async def start(self) -> None:
        """Returns at once, because the API may be unreachable. `synced` is set once the agent manages its pods."""
        self.config.data_dir.mkdir(parents=True, exist_ok=True)
        self.cpus.open()
        await self.runtime.open()
        self.ledger.load()
        self._core.queue.start(self._reconcile)
        self._tasks.start(self._recorder.run(), "events")
        self._tasks.start(self._cache.run(), "pods")
        self._tasks.start(self.node.run(), "node")
        self._tasks.start(self.node.follow(), "own-node")
        self._tasks.start(self._begin(), "begin")
        if not self.runtime.in_memory:
            self._tasks.start(self.pressure.run(), "pressure")
            self._tasks.start(self.drift.run(), "drift")
        if self.runtime.separate:
            watch = RuntimeWatch(self.runtime, self.node, self.clock)
            await watch.check()
            self._tasks.start(watch.run(), "runtime-watch")
            self._tasks.start(self.images.run(), "images")
        if self.config.on_disk:
            self._tasks.start(self._services.run(), "services")

    async def _begin(self) -> None:
        self._tasks.start(self._listen(), "runtime")
        await self._until_done(self._find_cpus)
        if self.config.static_dir is not None:
            # Runs before any API call, because the API server itself may be a static pod.
            await self._static.adopt(self.counted)
            self._tasks.start(self._static.run(), "static")
        if self.config.register:
            await self.node.registered.wait()
            self._static.registered()
            if self.config.range_wait_s:
                await self.node.wait_for_range(self.config.range_wait_s)
        self.node.use_range()
        await self._cache.ready.wait()
        if self.config.on_disk:
            await self._services.known(2.0)
            await self._redirect.done()
        # No new pod is admitted before the running ones are accounted for, however long that takes.
        await self._until_done(lambda: self.roster.take_over(list(self._cache)))
        await self._expected.begin()
        self._cache.subscribe(self._pod_changed)
        self.roster.remove_missing({pod["metadata"]["uid"] for pod in self._cache})
        await self._clean_up()
        self.cpus.ready()
        self.allocator.find_pending()
        self.synced.set()

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        last = after if after is not None else before
        if last is not None and is_mirror(last):
            self._static.mirror_changed(before, after)
        else:
            self.roster.changed(before, after)

    async def _reconcile(self, uid: str) -> Result:
        result, record = await self._loop.reconcile(uid), self.records.get(uid)
        if record is not None:
            await self.reflex.follow(record)
            self.squeeze.follow(record)
        return result

    async def _find_cpus(self) -> None:
        for state in await self.counted.pods():
            await self.cpus.find(state)

    async def _until_done(self, work: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(0.5, 30.0)
        while True:
            try:
                await work()
                return
            except (RuntimeFailure, OSError) as error:
                log.error("restoring the pods of %s: %s; retrying", self.config.node_name, error)
                await self.clock.sleep(backoff.next())

    async def _listen(self) -> None:
        async for event in self.runtime.events():
            for listener in list(self.listeners):
                try:
                    listener(event)
                except Exception:
                    log.exception("a listener to the runtime failed")
            if event.pod_uid in self.records:
                self._core.queue.enqueue(event.pod_uid)
            elif event.kind == "found" and self.synced.is_set():
                self._tasks.start(self._remove_stray(event.pod_uid), f"stray-{event.pod_uid}")

    async def _clean_up(self) -> None:
        """Removes leftovers of pods that no longer belong to this node: in the runtime, on disk, in the ledger."""
        for state in await self.counted.pods():
            await self._remove_stray(state.config.uid)
        for uid in self.ledger.uids() - self.records.keys():
            self.ledger.forget(uid)
        for uid in set(self.volumes.known()) - self.records.keys() if self.config.on_disk else ():
            self.volumes.remove(uid)
        await self._free_cpus()

    async def _free_cpus(self) -> None:
        """Releases CPUs of pods that were removed while no agent was running."""
        for uid in self.cpus.uids():
            record = self.records.get(uid)
            if record is None or record.finished:
                await self.counted.stop_pod(uid)
                self.cpus.release(uid)
                self.allocator.on_room_freed("pods_removed", uid)

    async def _remove_stray(self, uid: str) -> None:
        if uid in self.records:
            return
        log.warning("removed pod %s: it no longer belongs to this node", uid)
        try:
            await self.counted.remove_pod(uid)
        except (RuntimeFailure, OSError) as error:
            log.warning("removing %s: %s", uid, error)

    async def stop(self, stop_pods: bool = False) -> None:
        """Pods keep running unless `stop_pods`; allocations are on disk."""
        for end in self.at_stop:
            await end()
        await self._core.queue.stop()
        for record in self.records.values():
            Probing.stop(record)
        await self._tasks.stop()
        if stop_pods:
            await self.runtime.purge()
            remove_memory_volumes(self.config.pods_dir)
        try:
            await self.ledger.flush()
        except OSError as error:
            log.error("the ledger could not be written on shutdown: %s", error)
        self.ledger.close()
        if self.config.deregister:
            await self.node.leave()
        await self.runtime.close()

    async def idle(self) -> None:
        """Waits until no pod is being reconciled and all Events are sent. For tests and clean shutdowns."""
        await self._core.queue.idle()
        await self._recorder.flush()

    # --- interface for other components
    def story(self, uid: str) -> list[dict[str, Any]]:
        record = self.records.get(uid)
        return record.story.to_json() if record is not None else []

    def find(self, namespace: str, name: str) -> PodRecord | None:
        """Returns the record of a pod by name."""
        return next(
            (record for record in self.records.values() if record.namespace == namespace and record.name == name), None
        )

    def enqueue(self, uid: str) -> None:
        self._core.queue.enqueue(uid)
