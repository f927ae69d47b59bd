"""The node agent as one object: what it is made of, how it starts and stops, and what others may ask it."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from typing import Any

from podfit.agent.act import Actuator
from podfit.agent.allocator import Allocator
from podfit.agent.calls import Calls
from podfit.agent.closing import Closing
from podfit.agent.config import AgentConfig
from podfit.agent.cpus.build import cpu_policy
from podfit.agent.diskuse import DiskMeter
from podfit.agent.drift import Drift
from podfit.agent.eviction import Evictions
from podfit.agent.furnish.containers import ContainerMaker
from podfit.agent.furnish.environment import Environment
from podfit.agent.furnish.followed import Followed
from podfit.agent.furnish.machines import Machines
from podfit.agent.furnish.objects import Objects
from podfit.agent.furnish.runtimeclasses import RuntimeClasses
from podfit.agent.furnish.services import Services
from podfit.agent.furnish.volumes import Volumes, remove_memory_volumes
from podfit.agent.imagegc import ImageCollector
from podfit.agent.ledger import Ledger
from podfit.agent.life.crashes import Crashes
from podfit.agent.life.ending import Stopper
from podfit.agent.life.hooks import Hooks
from podfit.agent.life.images import ImagePulls, PullSlots
from podfit.agent.life.portconflicts import PortConflicts
from podfit.agent.life.powers import Powers
from podfit.agent.life.probes import Probes
from podfit.agent.life.pullrecords import PULLS, PullRecords
from podfit.agent.life.pullsecrets import PullSecrets
from podfit.agent.life.starter import Starter
from podfit.agent.life.static import StaticPods
from podfit.agent.loop import PodLoop
from podfit.agent.memory import MemoryWaits
from podfit.agent.metrics import AgentMetrics
from podfit.agent.migration.arrival import Arrivals
from podfit.agent.migration.departure import Departures
from podfit.agent.migration.expected import Expected
from podfit.agent.migration.logs import EarlierLogs
from podfit.agent.migration.steps import Steps
from podfit.agent.node import NodeKeeper
from podfit.agent.notices import Notices
from podfit.agent.pressure import PressureWatch, machine_readings
from podfit.agent.reclaim import Reclaimer
from podfit.agent.record import PodRecord
from podfit.agent.report import Reporter
from podfit.agent.restarts import Restarts
from podfit.agent.roster import Roster
from podfit.agent.runtimes.base import Event, Runtime, RuntimeFailure, hidden_folder
from podfit.agent.runtimewatch import RuntimeWatch
from podfit.agent.workers import Workers
from podfit.api.kinds import POD
from podfit.api.quantity import Quantity
from podfit.api.resources import CPU, MEMORY
from podfit.api.status import ApiError
from podfit.client.cache import Cache
from podfit.client.events import EventRecorder
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock
from podfit.kit.tasks import Tasks
from podfit.reconcile.result import DONE, Result

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
        calls = Calls(runtime, self.metrics, self.clock)
        self.counted, self._commands = calls.counted(), calls.commands()
        """The runtime as the parts of the agent ask it; hooks and probes have a view of their own."""
        self.records: dict[str, PodRecord] = {}
        self.ledger = ledger or Ledger(config.data_dir / "ledger", config.durable)
        self.node = NodeKeeper(client, runtime, config, self.clock)
        self.synced = asyncio.Event()
        """Set once the pods of the API are known and those that ran on are adopted."""
        self.listeners: list[Callable[[Event], None]] = []
        """Told of everything the runtime tells."""
        self.at_stop: list[Callable[[], Awaitable[None]]] = []
        """Ended with the agent, before it lets go of its pods."""
        self._tasks = Tasks(f"agent-{config.node_name}")
        self._redirecting: asyncio.Task[None] | None = None
        self._workers = Workers(self._pass, self.clock)
        self._recorder = EventRecorder(client, "kubelet", config.node_name, self.clock)
        self.notices = Notices(self._recorder)
        self._cache = Cache(client, POD, clock=self.clock, fieldSelector=f"spec.nodeName={config.node_name}")
        self._expected = Expected(client, runtime, config.node_name, self.clock, self._tasks)
        self._build()

    def _build(self) -> None:
        config, clock, tasks, kick = self.config, self.clock, self._tasks, self._workers.kick
        followed = Followed(self.client, clock, tasks)
        objects = Objects(self.client, clock, followed)
        self.volumes = Volumes(config, objects, self.node.address, clock)
        followed.changed = self._object_changed
        self.environment = Environment(objects, config.node_name, self.node.address)
        self._services = Services(self.client, clock, config.api_server)
        self._services.redirected = self._redirect
        if config.on_disk:
            self.environment.services = self._services.variables
        node_bytes = Quantity.parse(self.node.capacity[MEMORY]).value
        image_status = self.runtime.image_status
        self.maker = ContainerMaker(config, self.environment, self.volumes, self.ledger, image_status, node_bytes)
        self.maker.local_profiles = self.runtime.local_profiles
        secrets, slots = PullSecrets(objects, self.notices), PullSlots(config.parallel_pulls, config.most_pulls)
        pulls = PullRecords(hidden_folder(config.data_dir) / PULLS if config.on_disk else None, config.durable)
        self._images = ImagePulls(self.counted, self.notices, secrets, pulls, clock, tasks, kick, slots)
        hooks, restarts = Hooks(self._commands, clock), Restarts(self.ledger)
        self.cpus = cpus = cpu_policy(config, self.counted, self.node.capacity[CPU], self.metrics.cpus, tasks, clock)
        self.allocator = Allocator(
            config, self.ledger, self.notices, self.metrics, clock, self.records, kick, tasks, cpus
        )
        self._waits = MemoryWaits(self.counted, tasks, kick)
        stopper = Stopper(self.counted, self.notices, hooks, clock, tasks, kick)
        reporter = Reporter(self.client, self.counted, clock, self.node.address)
        closing = Closing(
            self.counted,
            self.ledger,
            self.allocator,
            cpus,
            stopper,
            reporter,
            self.notices,
            self.metrics,
            self._farewell,
            clock,
        )
        classes = RuntimeClasses(self.client, simulated=self.runtime.name == "fake")
        starter = Starter(
            self.counted,
            self.ledger,
            self.notices,
            self.maker,
            self._images,
            classes,
            Machines(objects),
            hooks,
            stopper,
            restarts,
            cpus,
            clock,
            tasks,
            kick,
        )
        steps = Steps(self.client, self.runtime, config.node_name)
        arrivals = Arrivals(
            steps,
            self.counted,
            self.ledger,
            starter,
            self._images,
            classes,
            self.maker,
            cpus,
            EarlierLogs(self.client, self.maker.log_file),
            self.notices,
        )
        self._loop = PodLoop(
            config,
            self.counted,
            self.ledger,
            self.allocator,
            cpus,
            Actuator(self.counted, self.ledger),
            starter,
            stopper,
            restarts,
            closing,
            reporter,
            self.notices,
            self.metrics,
            self._waits,
            Crashes(self.notices, clock),
            PortConflicts(config, self.node.address, self.notices, clock),
            Powers(self.counted, self.notices, clock, tasks, kick),
            lambda record: Probes(record, self._commands, self.notices, clock, kick),
            self._farewell,
            self.maker,
            self.volumes,
            self._workers.looking,
            Departures(steps, self.notices, clock, tasks),
            arrivals,
            clock,
        )
        self.roster = Roster(
            config, self.records, self.ledger, self.counted, self.allocator, cpus, self.metrics, clock, kick
        )
        self._expected.coming, self._expected.not_coming = self.roster.coming, self.roster.not_coming
        self.roster.unsure = self._expected.look_for
        reporter.missed, reporter.news = self.roster.missed, self.roster.take
        reporter.look_after = self._workers.kick_after
        self._static = StaticPods(config, self.client, clock, self.roster, lambda: self.node.uid)
        self.pressure = PressureWatch(
            self.node, clock, lambda: machine_readings(config.data_dir, self.ledger), config.eviction_hard
        )
        self.pressure.changed = self.allocator.press
        evictions = Evictions(self.records, self.notices, kick)
        self.images = ImageCollector(self.counted, self.node, self._recorder, config.image_policy, clock)
        self.images.listed = pulls.keep
        meter = DiskMeter(self.records, self.runtime, self.volumes, self.maker.log_folder, self.images.delete_unused)
        reclaimer = Reclaimer(self.records, self.ledger, self.counted, evictions, meter)
        self.pressure.relieve, self.pressure.reclaim = reclaimer.relieve, meter.reclaim
        self.pressure.enforce = reclaimer.enforce
        self.drift = Drift(self.records, self.ledger, self.runtime, self.notices, clock, kick)
        self.node.changed = self._use_node
        self.node.outdated = self._tell_again
        self.allocator.look_again = self._look_again
        self._use_node()

    def _object_changed(self, uid: str) -> None:
        self.volumes.changed(uid)
        self._workers.kick(uid)

    def _redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        """Pods reach the API server at the address of its Service."""
        self._redirecting = self._tasks.start(self._redirect_to(address, port, target, target_port), "redirect")

    async def _redirect_to(self, address: str, port: int, target: str, target_port: int) -> None:
        try:
            await self.runtime.redirect(address, port, target, target_port)
        except RuntimeFailure as error:
            log.warning("pods cannot reach the API server: %s", error)

    def _use_node(self) -> None:
        self.runtime.use_range(self.node.pod_range)
        self.allocator.allocatable = self.node.allocatable
        self.allocator.labels = self.node.labels
        self.environment.node = self.volumes.node = self.node.allocatable

    def _look_again(self) -> None:
        self._tasks.start(self._look_at_node(), "node-again")

    def _tell_again(self) -> None:
        self._tasks.start(self._tell_node(), "node-told")

    async def _tell_node(self) -> None:
        try:
            await self.node.publish()
        except (ApiError, Unreachable) as error:
            log.info("node %s: %s", self.config.node_name, error)  # the next status tells it

    async def _look_at_node(self) -> None:
        await self.node.look()
        self.allocator.looked()

    # --- life
    async def start(self) -> None:
        """Returns at once: the API may be away; `synced` tells when the node is in charge of its pods."""
        self.config.data_dir.mkdir(parents=True, exist_ok=True)
        self.cpus.open()
        await self.runtime.open()
        self.ledger.load()
        self._tasks.start(self._recorder.run(), "events")
        self._tasks.start(self._cache.run(), "pods")
        self._tasks.start(self.node.run(), "node")
        self._tasks.start(self.node.follow(), "own-node")
        self._tasks.start(self._begin(), "begin")
        if self.runtime.name != "fake":
            self._tasks.start(self.pressure.run(), "pressure")
            self._tasks.start(self.drift.run(), "drift")
        if self.runtime.name not in ("fake", "podfit"):
            watch = RuntimeWatch(self.runtime, self.node, self.clock)
            await watch.look()
            self._tasks.start(watch.run(), "runtime-watch")
            self._tasks.start(self.images.run(), "images")
        if self.config.on_disk:
            self._tasks.start(self._services.run(), "services")

    async def _begin(self) -> None:
        self._tasks.start(self._listen(), "runtime")
        await self._until_done(self._find_cpus)
        if self.config.static_dir is not None:
            # Before anybody else is asked: the API server itself may be one of them.
            await self._static.adopt(self.counted)
            self._tasks.start(self._static.run(), "static")
        if self.config.register:
            await self.node.registered.wait()
            self._static.registered()
            if self.config.range_wait_s:
                await self.node.wait_for_range(self.config.range_wait_s)
        self._use_node()
        await self._cache.ready.wait()
        if self.config.on_disk:
            await self._services.known(2.0)
            await asyncio.wait({self._redirecting}) if self._redirecting is not None else None
        # Nobody new is admitted before the pods that run are accounted for, however long that takes.
        await self._until_done(lambda: self.roster.take_over(list(self._cache)))
        await self._expected.begin()
        self._cache.subscribe(self.roster.changed)
        self.roster.miss({pod["metadata"]["uid"] for pod in self._cache})
        await self._clean_up()
        self.cpus.ready()
        self.allocator.find_pending()
        self.synced.set()

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
                log.error("taking over the pods of %s: %s; trying again", self.config.node_name, error)
                await self.clock.sleep(backoff.next())

    async def _listen(self) -> None:
        async for event in self.runtime.events():
            for listener in list(self.listeners):
                try:
                    listener(event)
                except Exception:
                    log.exception("a listener to the runtime failed")
            if event.pod_uid in self.records:
                self._workers.kick(event.pod_uid)
            elif event.kind == "found" and self.synced.is_set():
                self._tasks.start(self._remove_stray(event.pod_uid), f"stray-{event.pod_uid}")

    async def _clean_up(self) -> None:
        """Whatever belongs to no pod of ours any more: in the runtime, on disk, in the ledger."""
        for state in await self.counted.pods():
            await self._remove_stray(state.config.uid)
        for uid in self.ledger.uids() - self.records.keys():
            self.ledger.forget(uid)
        for uid in set(self.volumes.known()) - self.records.keys() if self.config.on_disk else ():
            self.volumes.remove(uid)
        await self._free_cpus()

    async def _free_cpus(self) -> None:
        """CPUs of pods that went while no agent ran."""
        for uid in self.cpus.uids():
            record = self.records.get(uid)
            if record is None or record.finished:
                await self.counted.stop_pod(uid)
                self.cpus.release(uid)
                self.allocator.freed("pods_removed", uid)

    async def _remove_stray(self, uid: str) -> None:
        if uid in self.records:
            return
        log.warning("removed pod %s: this node has no such pod any more", uid)
        try:
            await self.counted.remove_pod(uid)
        except (RuntimeFailure, OSError) as error:
            log.warning("removing %s: %s", uid, error)

    async def stop(self, stop_pods: bool = False) -> None:
        """Pods run on unless `stop_pods`; promises are on disk."""
        for end in self.at_stop:
            await end()
        await self._workers.stop()
        for record in self.records.values():
            if record.probes is not None:
                record.probes.stop()
        await self._tasks.stop()
        if stop_pods:
            await self.runtime.purge()
            remove_memory_volumes(self.config.pods_dir)
        try:
            await self.ledger.flush()
        except OSError as error:
            log.error("the ledger could not be written at the end: %s", error)
        self.ledger.close()
        if self.config.deregister:
            await self.node.leave()
        await self.runtime.close()

    async def idle(self) -> None:
        """Until no pod is being worked on and all Events are sent: for tests and clean ends."""
        await self._workers.idle()
        await self._recorder.flush()

    # --- passes
    async def _pass(self, uid: str) -> Result:
        record = self.records.get(uid)
        if record is None:
            return DONE
        kind, began = record.next_pass(), self.clock.monotonic()
        try:
            return await self._loop.run(record)
        finally:
            self.metrics.worker_seconds.labels(kind).observe(self.clock.monotonic() - began)
            record.rest()

    async def _farewell(self, record: PodRecord) -> None:
        """The pod is over and its object is going: nothing of it stays here."""
        if not record.removed:
            await self.counted.remove_pod(record.uid)
            self.cpus.release(record.uid)
            if self.config.on_disk:
                self.volumes.remove(record.uid)
                shutil.rmtree(self.maker.log_folder(record), ignore_errors=True)
            self.ledger.forget(record.uid)
            self._waits.forget(record)
            self._images.forget(record.uid)
            record.removed = True
        if record.ending is not None and record.ending.gone:
            self.roster.forget(record.uid)
            self._workers.forget(record.uid)
            self._expected.forgotten(record.uid)
            return
        meta = record.pod["metadata"]
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        try:
            await self.client.delete(
                POD, record.namespace, meta["name"], {**options, "preconditions": {"uid": record.uid}}
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    # --- what others may ask
    def story(self, uid: str) -> list[dict[str, Any]]:
        record = self.records.get(uid)
        return record.story.to_json() if record is not None else []

    def find(self, namespace: str, name: str) -> PodRecord | None:
        """The record of a pod by its name, for the agent's own server."""
        return next((one for one in self.records.values() if one.namespace == namespace and one.name == name), None)

    def kick(self, uid: str) -> None:
        self._workers.kick(uid)
