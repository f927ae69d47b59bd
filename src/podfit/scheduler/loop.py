"""The scheduler's loop: watches update the board, each turn assigns nodes to the pods that are due, and workers write
the bindings.

A turn decides on many pods without yielding; a decision is assumed at once, so that the next one takes it into account,
and reverted if the API server refuses it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from functools import partial

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, NODE, POD, kind_named
from podfit.api.status import ApiError
from podfit.client import Cache, Client
from podfit.client.recording.actions import ActionRecorder
from podfit.client.resizing import default_dialect
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.scheduler.act import ACTIONS, SchedulerWrites
from podfit.scheduler.config import SchedulerConfig
from podfit.scheduler.decide.board import Board, Epoch, Placed, Refused
from podfit.scheduler.decide.fit.fitting import Fitting
from podfit.scheduler.decide.fit.reasons import PLUGINS, refusal
from podfit.scheduler.decide.pod.owners import only_selector
from podfit.scheduler.decide.pod.pods import PodShape, resident
from podfit.scheduler.decide.preempt import NoRoom, PreemptionCandidate, budgets_from, less_important_waiting, preempt
from podfit.scheduler.decide.queue import ACTIVE, WAITING, Entry, Group, PodQueue
from podfit.scheduler.making_room import MakingRoom
from podfit.scheduler.metrics import CLUSTER_CHANGED, ERROR, QUEUES, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from podfit.scheduler.observe import Observer

log = logging.getLogger(__name__)

_LIVE = "status.phase!=Succeeded,status.phase!=Failed"
_FLUSH_EVERY_S = 30.0


class Scheduler:
    def __init__(
        self,
        client: Client,
        config: SchedulerConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.client, self.config, self.clock = client, config or SchedulerConfig(), clock or RealClock()
        self.metrics = SchedulerMetrics(self.config.scheduler_name)
        self.ready = asyncio.Event()
        self._reset()
        self._measure()

    def _reset(self) -> None:
        """A scheduler that becomes leader again starts from the API server's state, not from its own."""
        config, client, clock = self.config, self.client, self.clock
        self.board = Board(rules=config.rules, seed=config.seed)
        self.queue = PodQueue()
        name = config.scheduler_name
        self._recorder = ActionRecorder(client, name, f"{name}-{socket.gethostname()}", ACTIONS, clock)
        self._writes = SchedulerWrites(client, self._recorder, clock, config.scheduler_name, lambda: self.queue.due)
        self._due = asyncio.Event()
        self._observer = Observer(self.board, self.queue, clock, config.scheduler_name, self._due.set, self._pods_in)
        self._random = random.Random(config.seed)
        self._selected_keys: frozenset[str] | None = None
        self._claimed = 0
        self._no_room: dict[tuple[bytes, int, str], tuple[Epoch, NoRoom]] = {}
        self.nodes = Cache(client, NODE, clock=clock)
        self.pods = Cache(client, POD, clock=clock, page=2000, fieldSelector=_LIVE)
        self.namespaces = Cache(client, NAMESPACE, clock=clock)
        self.budgets = Cache(client, kind_named("PodDisruptionBudget"), clock=clock)
        self._room = MakingRoom(config, self.board, self._observer, self.budgets, self._writes, self.metrics, clock)
        kinds = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet")
        self.owners = [Cache(client, kind_named(kind), clock=clock, page=500, trim=only_selector) for kind in kinds]
        for cache in self.owners:
            owners = self.board.owners
            cache.subscribe(owners.service if cache.kind.kind == "Service" else owners.owning_set)
        self.claims = Cache(client, kind_named("PersistentVolumeClaim"), clock=clock, page=500, trim=only_selector)
        self.claims.subscribe(self.board.claims.changed)
        self.claims.subscribe(lambda before, after: self._due.set())
        self.board.claims.aware = True
        self.nodes.subscribe(self._observer.node)
        self.namespaces.subscribe(self._observer.namespace)
        self.pods.subscribe(self._observer.pod)

    async def run(self) -> None:
        """Runs until cancelled."""
        self._reset()
        self._observer.default_dialect = await default_dialect(self.client, self.clock)
        tasks = Tasks("scheduler")
        try:
            caches = (self.nodes, self.namespaces, self.budgets, *self.owners, self.claims, self.pods)
            for cache in caches:
                if cache is self.pods:
                    # Namespace labels affect the matching of pods.
                    await self.namespaces.ready.wait()
                tasks.start(cache.run(), f"watch-{cache.kind.plural}")
            await asyncio.gather(*(cache.ready.wait() for cache in caches))
            self._writes.start(tasks, self.config.bind_workers, self.config.write_workers)
            tasks.start(self._recorder.run(), "events")
            tasks.start(self._tick(), "timers")
            self.ready.set()
            while True:
                await self._due.wait()
                self._due.clear()
                self.turn()
                # Watches and bindings run between two turns.
                await asyncio.sleep(0)
        finally:
            self.ready.clear()
            await tasks.stop()

    def _pods_in(self, namespace: str) -> list[Object]:
        return [pod for pod in self.pods if pod["metadata"].get("namespace") == namespace]

    async def idle(self) -> None:
        """Waits until nothing is due and every decision was written."""
        while self._due.is_set() or self.queue.due or self._observer.assumed:
            await asyncio.sleep(0)
        await self._writes.idle()

    async def _tick(self) -> None:
        """Time-driven work: the end of a backoff, pods that waited too long, deadlines of resizes."""
        flushed = self.clock.monotonic()
        while True:
            await self.clock.sleep(0.25)
            now = self.clock.monotonic()
            self.queue.release_due(now)
            if now - flushed >= _FLUSH_EVERY_S:
                flushed = now
                self.queue.flush(now, self.config.flush_after_s)
            self._room.check()
            if self.queue.due:
                self._due.set()

    def _measure(self) -> None:
        """Registers the functions that compute gauges when they are read."""
        metrics, name = self.metrics, self.config.scheduler_name
        for state in QUEUES:
            metrics.pending.labels(state).set_function(partial(self._pending, state))
        for plugin in sorted(set(PLUGINS.values())):
            gauge = metrics.unschedulable.labels(plugin, name)
            gauge.set_function(partial(self._refused_by, plugin))
        metrics.cache_size.labels("nodes").set_function(lambda: len(self.board.snapshot))
        metrics.cache_size.labels("pods").set_function(lambda: len(self.board.snapshot.pods))
        metrics.cache_size.labels("assumed_pods").set_function(lambda: len(self._observer.assumed))

    def _pending(self, state: str) -> float:
        return self.queue.counts()[state]

    def _refused_by(self, plugin: str) -> float:
        return self.queue.refused_by(plugin)

    # --- a turn
    def turn(self) -> None:
        """Assigns nodes to pods that are due, including those that waited for a change that has since occurred."""
        self._regroup()
        self._wake(self.queue.top_priority)
        for _ in range(self.config.turn_pods):
            if not self.queue.due:
                self._wake(None)
            entry = self.queue.pop()
            if entry is None:
                return
            self._schedule(entry)
        self._due.set()

    def _regroup(self) -> None:
        selected_keys, claims = self.board.snapshot.holders.selected_keys, self.board.claims.version
        if (selected_keys, claims) != (self._selected_keys, self._claimed):
            # Labels that did not matter may matter now, so pods of one group may have different shapes: group all
            # again.
            self._selected_keys, self._claimed = selected_keys, claims
            self.queue.flush(self.clock.monotonic(), 0.0)

    def _wake(self, above: int | None) -> None:
        """Activates the highest-priority waiting pod that fits now, if its priority is above `above`.

        Only one pod at a time: it may use the room that others would fit in too, and their retries would fail.
        """
        changed = []
        for group in self.queue.groups.values():
            seen = self._relevant_epoch(group.shape)
            if group.seen != seen and (head := group.head()) is not None:
                changed.append((head.rank, group, seen))
        for (importance, _), group, seen in sorted(changed, key=lambda row: row[0]):
            if above is not None and -importance <= above:
                return
            if self._try_group(group):
                return
            group.seen = seen

    def _try_group(self, group: Group) -> bool:
        head = group.head()
        # Capacity may be reserved for a member of the group other than its first.
        promised = [group.members[key] for key in self.board.nominated if key in group.members]
        for entry in dict.fromkeys([*([head] if head is not None else []), *promised]):
            if self.board.fits_somewhere(entry.pod, group.shape):
                self.metrics.incoming.labels(ACTIVE, CLUSTER_CHANGED).inc()
                self.queue.activate(entry)
                return True
        return False

    def _relevant_epoch(self, shape: PodShape) -> tuple[int, ...]:
        """The counters that must change before a pod of this shape can fit; new pods affect inter-pod rules only."""
        freed, filled, nodes, promises = self.board.epoch
        return (freed, nodes, promises, filled) if shape.relational else (freed, nodes, promises)

    def _schedule(self, entry: Entry) -> None:
        began = self.clock.monotonic()
        try:
            shape = self.board.shape(entry.pod)
            verdict = self.board.place(entry.pod, shape)
            if isinstance(verdict, Placed):
                self._assume(entry, verdict)
                result = SCHEDULED
            else:
                self._refuse(entry, shape, verdict)
                result = UNSCHEDULABLE
        except Exception as error:
            # One pod that cannot be parsed must not stop the others.
            log.exception("scheduling %s/%s failed", *entry.key)
            self._writes.emit(entry.pod, "Warning", "FailedScheduling", f"internal error: {error}")
            self.queue.back_off(entry, self.clock.monotonic())
            result = ERROR
        self.metrics.tried(result, self.config.scheduler_name, self.clock.monotonic() - began)

    def _assume(self, entry: Entry, placed: Placed) -> None:
        self.board.snapshot.put_pod(resident(entry.pod, placed.node))
        self.board.unnominate(entry.key)
        self._observer.assumed[entry.key] = entry.uid
        self._writes.bind(lambda: self._bind(entry, placed.node))

    async def _bind(self, entry: Entry, node: str) -> None:
        if self._observer.assumed.get(entry.key) != entry.uid:
            return  # deleted meanwhile, or bound by another client
        try:
            await self._writes.bind_pod(entry.pod, node)
        except (ApiError, Unreachable) as error:
            self._forget(entry, error)
            return
        self.metrics.bound(entry.attempts, self.clock.monotonic() - entry.added_s)

    def _forget(self, entry: Entry, error: ApiError | Unreachable) -> None:
        """Reverts an assumption; the pod is retried later unless it is gone or has its node by now."""
        if self._observer.assumed.get(entry.key) != entry.uid:
            return
        del self._observer.assumed[entry.key]
        self.board.snapshot.remove_pod(entry.key)
        self._due.set()
        if isinstance(error, ApiError) and error.code == 404:
            self.queue.remove(entry.key)
            return
        self.metrics.attempts.labels(ERROR, self.config.scheduler_name).inc()
        self._writes.emit(entry.pod, "Warning", "FailedScheduling", f"binding rejected: {error}")
        self.queue.back_off(entry, self.clock.monotonic())

    # --- refusals
    def _refuse(self, entry: Entry, shape: PodShape, refused: Refused) -> None:
        message, nominated = refused.message, None
        if refused.codes is not None:
            self.metrics.preemptions.inc()
            outcome = self._find_victims(entry, shape, refused)
            if isinstance(outcome, NoRoom):
                message = refusal(message, outcome.message)
                nominated = self._keep_nomination(entry.pod, outcome)
            else:
                nominated = outcome.node
                self._preempt(entry, outcome)
        plugins = Fitting.plugins(refused.codes) if refused.codes is not None else frozenset()
        self.queue.park(entry, shape, self._relevant_epoch(shape), self.clock.monotonic(), plugins)
        self._writes.emit(entry.pod, "Warning", "FailedScheduling", message)
        pod = entry.pod
        self._writes.write(lambda: self._writes.report_refusal(pod, "Unschedulable", message, nominated))

    def _find_victims(self, entry: Entry, shape: PodShape, refused: Refused) -> PreemptionCandidate | NoRoom:
        """Pods of one shape and priority fail for the same reason until something changes: one search is enough."""
        policy = entry.pod["spec"].get("preemptionPolicy") or ""
        kind = (shape.key, entry.priority, policy)
        nominated = (entry.pod.get("status") or {}).get("nominatedNodeName")
        epoch, known = self._no_room.get(kind, (None, None))
        if known is not None and epoch == self.board.epoch and not nominated:
            return known
        outcome = preempt(self.board, entry.pod, refused, budgets_from(self.budgets), self._random)
        if isinstance(outcome, NoRoom) and not nominated:
            if len(self._no_room) > self.config.rules.max_shapes:
                self._no_room.clear()
            self._no_room[kind] = (self.board.epoch, outcome)
        return outcome

    def _keep_nomination(self, pod: Object, outcome: NoRoom) -> str | None:
        """Removes a pod's nomination if preemption did not make it fit; not while its victims are still terminating."""
        mine = (pod.get("status") or {}).get("nominatedNodeName")
        if not mine or not outcome.eligible:
            return None
        self.board.unnominate((pod["metadata"].get("namespace") or "", pod["metadata"]["name"]))
        return ""

    def _preempt(self, entry: Entry, chosen: PreemptionCandidate) -> None:
        preemptor, node = entry.pod, chosen.node
        self.metrics.victims.observe(len(chosen.victims))
        for loser in less_important_waiting(self.board, node, preemptor):
            self.board.unnominate(loser.key)
            self._writes.write(partial(self._writes.clear_nomination, loser.pod))
        self.board.nominate(preemptor, node)
        for victim in chosen.victims:
            self._writes.write(partial(self._end, victim.pod, entry, node))

    async def _end(self, victim: Object, entry: Entry, node: str) -> None:
        try:
            await self._writes.preempt(victim, entry.pod, node)
        except (ApiError, Unreachable) as error:
            # No watch event follows, so the retry must be scheduled here.
            log.info("preempting %s for %s: %s", victim["metadata"]["name"], entry.key, error)
            self.board.unnominate(entry.key)
            if entry.state == WAITING:
                self.queue.back_off(entry, self.clock.monotonic())
