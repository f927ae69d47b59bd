"""Decides pending resizes of all pods of the node together: in order of priority, with one fsync for all granted ones.

The verdicts come from `decide.resize.allocate`. Deferred resizes are retried when room becomes free, and periodically.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from podfit.agent.allocation.admission import Admission
from podfit.agent.allocation.allocations import Allocations
from podfit.agent.allocation.node_facts import NodeFacts
from podfit.agent.backoff import StartBackoff
from podfit.agent.core import Core
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide.node import eviction
from podfit.agent.decide.resize import allocate
from podfit.agent.decide.resize.machines import machines_of
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.pods.conditions import Conditions
from podfit.agent.pods.record import PodRecord
from podfit.api.pods.resources import Amounts, add_into
from podfit.api.pods.room import Room
from podfit.api.quantity import Quantity
from podfit.api.resize.conditions import DEFERRED, INFEASIBLE
from podfit.api.resize.states import Allocated, Desired, equal, requests_equal, same, shared
from podfit.api.resize.verdicts import Deferred, Granted, Infeasible, Unchanged
from podfit.kit.process.oserrors import system_words

log = logging.getLogger(__name__)


class Allocator:
    def __init__(
        self,
        core: Core,
        records: Mapping[str, PodRecord],
        node: NodeFacts,
        allocations: Allocations,
        admission: Admission,
        cpus: CpuPolicy,
        conditions: Conditions,
        backoff: StartBackoff,
    ) -> None:
        self._core, self._records, self._node = core, records, node
        self._config, self._ledger, self._clock = core.config, core.ledger, core.clock
        self._allocations, self._admission, self._cpus = allocations, admission, cpus
        self._conditions, self._backoff = conditions, backoff
        self._pending: dict[str, None] = {}
        """Pods with a pending resize, in order of arrival."""
        self._triggers: list[str] = []
        self._round: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._failures = 0

    # --- freed resources
    def recount(self, record: PodRecord) -> None:
        """Updates the counted resources after an allocation or a status changed. Freed room is offered to deferred
        resizes."""
        if self._allocations.recount(record):
            self.on_room_freed("pod_resized", record.uid)

    def on_room_freed(self, trigger: str, by: str = "") -> None:
        self._admission.retry_waiting()
        if self._pending.keys() - {by}:
            self.retry(trigger)

    def on_pressure_relieved(self) -> None:
        """Retries resizes that were deferred because of the pressure."""
        if self._pending:
            self.retry("periodic_retry")

    def drop(self, uid: str) -> None:
        """Stops counting a pod that is terminating or gone: its resources are free, and its resize is no longer
        pending."""
        self._allocations.drop(uid)
        self._admission.drop(uid)
        self._pending.pop(uid, None)
        record = self._records.get(uid)
        if record is not None and self._conditions.clear_pending(record):
            self._core.queue.enqueue(uid)

    # --- resizes
    def desire_changed(self, record: PodRecord, before: Desired) -> None:
        """Handles a spec that requests another size than `before`, which is usually the allocated one."""
        allocated = self._ledger.allocated(record.uid)
        if allocated is None:
            return
        if not shared(before, allocated) and equal(record.desired, allocated):
            self._reverted(record)
        else:
            self._pending.setdefault(record.uid)
            self.retry("pod_updated")

    def _reverted(self, record: PodRecord) -> None:
        self._pending.pop(record.uid, None)
        if self._conditions.clear_pending(record):
            record.story.add("reverted", "the desired size is already allocated")
            self._core.queue.enqueue(record.uid)

    def find_pending(self) -> None:
        """Decides, at startup, resizes that were requested while no agent was running."""
        for record in self._records.values():
            allocated = self._ledger.allocated(record.uid)
            if allocated is None or not record.admitted or not record.holds:
                continue
            if not equal(record.desired, allocated):
                self._pending.setdefault(record.uid)
            elif self._conditions.clear_pending(record):
                self._core.queue.enqueue(record.uid)
        if self._pending:
            self.retry("pods_added")

    def retry(self, trigger: str) -> None:
        self._triggers.append(trigger)
        if self._round is None or self._round.done():
            self._round = self._core.tasks.start(self._rounds(), "allocate")

    async def _rounds(self) -> None:
        while self._triggers:
            trigger = self._triggers[-1]
            self._triggers.clear()
            await self._one_round(trigger)
        self._wake_later()

    def _wake_later(self) -> None:
        if self._timer is not None and self._timer is not asyncio.current_task():
            self._timer.cancel()
        self._timer = self._core.tasks.start(self._periodic(), "allocate-later") if self._pending else None

    async def _periodic(self) -> None:
        delay = min(self._config.retry_s, 2.0**self._failures) if self._failures else self._config.retry_s
        silent_s = self._allocations.freeing.grace_left_s(self._pending)
        await self._clock.sleep(delay if silent_s is None else min(delay, silent_s))
        self._timer = None
        self.retry("periodic_retry")

    def _queue(self) -> list[PodRecord]:
        """The pods with pending resizes, in the order in which they are decided. Omits pods whose allocation is already
        gone: an object held by a finalizer outlives it."""
        waiting = [
            record for uid in self._pending if (record := self._records.get(uid)) and self._ledger.allocated(uid)
        ]
        return sorted(waiting, key=self._key) if len(waiting) > 1 else waiting

    def _key(self, record: PodRecord) -> tuple[object, ...]:
        allocated = self._ledger.allocated(record.uid)
        assert allocated is not None
        desired = record.desired
        increasing = not requests_equal(desired, allocated) and allocate.increases(
            record.sized(desired).requests, Sized(record.pod, allocated).requests
        )
        since = record.resize.pending.since if record.resize.pending is not None else None
        return allocate.queue_key(record.pod, increasing, record.qos, since)

    async def _one_round(self, trigger: str) -> None:
        granted: list[tuple[PodRecord, Allocated]] = []
        queue = self._queue()
        shared_room = self._allocations.room("") if len(queue) > 1 else None
        for record in queue:
            before, held = self._ledger.allocated(record.uid), record.used
            if before is None:
                continue
            counts = record.holds
            if shared_room is None:
                room = self._allocations.room(record.uid)
            else:
                room = _without(shared_room, held) if counts else shared_room
            if self._attempt(record, before, room):
                granted.append((record, before))
                if shared_room is not None and counts:
                    shared_room = Room(room.allocatable, _sum(room.used, record.used), room.pods + 1, room.max_pods)
        if granted:
            await self._persist(granted, trigger)

    async def _persist(self, granted: list[tuple[PodRecord, Allocated]], trigger: str) -> None:
        try:
            await self._cpus.flush()
            await self._ledger.flush()
        except OSError as error:
            self._revert(self._still_here(granted), error)
            return
        self._failures = 0
        for record, before in self._still_here(granted):
            self._granted(record, before, trigger)

    def _still_here(self, granted: list[tuple[PodRecord, Allocated]]) -> list[tuple[PodRecord, Allocated]]:
        """Skips pods that were removed while the ledger was being written."""
        return [(record, before) for record, before in granted if self._ledger.allocated(record.uid) is not None]

    def _attempt(self, record: PodRecord, before: Allocated, room: Room) -> bool:
        """Decides one resize. True if it is granted: in memory only, so the ledger must be flushed before it is
        applied."""
        desired = record.desired
        sized, policy = record.sized(desired), self._config.policy
        pressed = self._node.pressed
        kept_out = eviction.refusal(record.pod, record.qos, pressed) if pressed else None
        whole_cpus = policy.exclusive_cpus_resize or allocate.resizes_whole_cpus(record.pod)
        vms = machines_of(record.state)
        verdict = allocate.decide(
            record.pod, desired, before, room, record.qos, policy, sized, kept_out, whole_cpus, vms
        )
        if record.finished and not isinstance(verdict, Unchanged):
            # No container runs with the former allocation any more.
            verdict = Granted()
        elif isinstance(verdict, Granted) and (short := self._cpus.claim(record.pod, desired, record.qos)) is not None:
            verdict = Deferred("OutOfcpu", short.message)
        match verdict:
            case Unchanged():
                self._reverted(record)
            case Granted():
                self._pending.pop(record.uid, None)
                if self._allocations.grant(record, desired):
                    self.on_room_freed("pod_resized", record.uid)
                return True
            case Deferred():
                self._defer(record, verdict)
            case Infeasible(detail, message):
                self._pending.pop(record.uid, None)
                self._core.metrics.infeasible.labels(detail).inc()
                self._refuse(record, INFEASIBLE, INFEASIBLE, message)
        return False

    def _defer(self, record: PodRecord, verdict: Deferred) -> None:
        if verdict.missing and self._admission.make_room(record, verdict.missing):
            return
        if verdict.missing and self._allocations.freeing.keep_silent(record.uid, verdict.missing):
            record.story.add("waiting", "decreases in progress will make room")
            return
        self._refuse(record, DEFERRED, verdict.reason, verdict.message)

    def _refuse(self, record: PodRecord, reason: str, raw: str, message: str) -> None:
        before = record.resize.pending
        if self._conditions.refuse(record, reason, message):
            self._core.queue.enqueue(record.uid)
        if before is None or before.reason != reason or before.generation != record.generation:
            record.story.add(reason.lower(), message)
            rendered = record.sized(record.desired).rendered
            self._core.events.refused(record.pod, f"Resize{reason}", raw, rendered, message)

    def _granted(self, record: PodRecord, before: Allocated, trigger: str) -> None:
        """Handles a granted resize once its allocation is on disk."""
        after = self._ledger.allocated(record.uid)
        assert after is not None
        if record.finished:
            # A finished pod accepts any size, and nothing is applied.
            self._core.events.started(record.pod, record.sized(after).rendered, record.generation)
            return
        if self._conditions.grant(record):
            self._core.metrics.accepted_after_waiting(trigger)
        resized = [name for name, size in after.containers.items() if not same(size, before.containers.get(name))]
        self._backoff.retry_at_once(record, resized)
        record.story.add("allocated", trigger, generation=record.generation, sizes=after.containers)
        self._core.events.started(record.pod, record.sized(after).rendered, record.generation)
        self._core.queue.enqueue(record.uid)

    def _revert(self, granted: list[tuple[PodRecord, Allocated]], error: OSError) -> None:
        """Reverts an allocation that could not be persisted."""
        log.error("allocations could not be written (%s): retrying", error)
        self._failures += 1
        for record, before in granted:
            held_less = self._allocations.revert(record, before)
            self._cpus.claim(record.pod, before, record.qos)
            self._pending.setdefault(record.uid)
            if held_less:
                self.on_room_freed("pod_resized", record.uid)
            record.story.add("not allocated", f"the ledger could not be written: {system_words(error)}")


def _without(room: Room, held: Amounts) -> Room:
    left = {name: total - held[name] if name in held else total for name, total in room.used.items()}
    return Room(room.allocatable, left, room.pods - 1, room.max_pods)


def _sum(used: Mapping[str, Quantity], more: Amounts) -> Amounts:
    total = dict(used)
    add_into(total, more)
    return total
