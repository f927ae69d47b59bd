"""Decides, for all pods of the node together, who gets what: admission of new pods and the queue of pending resizes.

The verdicts come from `decide.allocate`; here they are put in order, written to the ledger (one fsync for all that are
granted together) and told. Nobody else writes allocations.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from podfit.agent.config import AgentConfig
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide import allocate, eviction, placement, sysctls
from podfit.agent.decide.allocate import Deferred, Granted, Infeasible, Room, Unchanged
from podfit.agent.decide.conditions import DEFERRED, INFEASIBLE
from podfit.agent.decide.machines import machines_of
from podfit.agent.decide.sized import Sized
from podfit.agent.decide.states import Allocated, Desired, equal, requests_equal, same, shared
from podfit.agent.eviction import Evictions
from podfit.agent.freeing import Freeing
from podfit.agent.ledger import Ledger
from podfit.agent.metrics import AgentMetrics
from podfit.agent.notices import WARNING, Notices
from podfit.agent.record import PodRecord
from podfit.agent.taken import Taken
from podfit.api.quantity import ZERO, Quantity
from podfit.api.resources import Amounts, add_into, pod_requests
from podfit.kit.clock import Clock
from podfit.kit.oserrors import system_words
from podfit.kit.tasks import Tasks

log = logging.getLogger(__name__)


class Allocator:
    def __init__(
        self,
        config: AgentConfig,
        ledger: Ledger,
        notices: Notices,
        metrics: AgentMetrics,
        clock: Clock,
        records: Mapping[str, PodRecord],
        kick: Callable[[str], None],
        tasks: Tasks,
        cpus: CpuPolicy,
    ) -> None:
        self._config, self._ledger, self._notices, self._metrics = config, ledger, notices, metrics
        self._cpus = cpus
        self._clock, self._records, self._kick, self._tasks = clock, records, kick, tasks
        self._evictions = Evictions(records, notices, kick)
        self._taken, self._freeing = Taken(records), Freeing(records, clock)
        self.allocatable: dict[str, Quantity] = {}
        self.labels: Mapping[str, str] = {}
        self.pressed: frozenset[str] = frozenset()
        self._pending: dict[str, None] = {}
        """Pods with a resize to decide, in the order they came."""
        self._outside: set[str] = set()
        """Pods that are admitted once others have left: critical ones, and those that need the others' CPUs."""
        self.look_again: Callable[[], None] = self.looked
        """Asks for the Node to be read again, `looked` to follow; set by the agent."""
        self._doubted: dict[str, None] = {}
        """Pods that the node's labels keep out, as far as they are known: those may be newer than what we know."""
        self._triggers: list[str] = []
        self._round: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._failures = 0

    # --- what is taken
    def room(self, uid: str) -> Room:
        used, pods = self._taken.by_others(uid)
        return Room(self.allocatable, used, pods, self._config.max_pods)

    def _holders(self, but: str) -> list[PodRecord]:
        return [one for one in self._records.values() if one.admitted and one.holds and one.uid != but]

    def recount(self, record: PodRecord) -> None:
        """After a promise or a status changed. Room that became free is offered to those who wait."""
        allocated = self._ledger.allocated(record.uid)
        if allocated is None:
            return
        counted = record.counted
        if counted is not None and counted[0] is record.pod and counted[1] is allocated:
            return
        record.counted = (record.pod, allocated)
        sized = record.sized(allocated)
        before, record.used = record.used, sized.held
        self._taken.changed(record.uid)
        self._freeing.counted(record.uid, allocated, record.used, sized.requests)
        for name, held in before.items():
            if record.used.get(name, ZERO).nanos < held.nanos:
                self.freed("pod_resized", record.uid)
                break

    def freed(self, trigger: str, by: str = "") -> None:
        for uid in list(self._outside):
            self._outside.discard(uid)
            if uid in self._records:
                self.admit(self._records[uid])
                self._kick(uid)
        if self._pending.keys() - {by}:
            self.retry(trigger)

    def press(self, pressed: frozenset[str]) -> None:
        """What the node is short of. Resizes may have waited for a pressure that is over."""
        over = self.pressed - pressed
        self.pressed = pressed
        if over and self._pending:
            self.retry("periodic_retry")

    def looked(self) -> None:
        """The Node is known as it is now: those who were in doubt get their answer."""
        doubted, self._doubted = self._doubted, {}
        for uid in doubted:
            record = self._records.get(uid)
            if record is not None and record.ending is None:
                self.admit(record, certain=True)
                self._kick(uid)

    # --- new pods
    def admit(self, record: PodRecord, certain: bool = False) -> None:
        """Promises the pod its size or rejects it. A pod with a promise keeps it without being asked again.

        `certain` says that the Node was read since the pod came here.
        """
        if (allocated := self._ledger.allocated(record.uid)) is not None:
            self._cpus.claim(record.pod, allocated, record.qos)
            self._take_in(record)
            return
        refusal = self._refusal(record)
        if record.uid in self._outside:
            return
        if refusal == placement.REFUSAL and not certain:
            self._doubt(record.uid)
            return
        if refusal is None:
            desired = record.desired
            self._ledger.allocate(record.uid, Allocated(desired.containers, desired.pod))
            self._take_in(record)
            record.story.tell("admitted", "there is room", requests={k: str(v) for k, v in record.used.items()})
            return
        reason, message = refusal
        record.rejected = (reason, f"Pod was rejected: {message}")
        record.story.tell("rejected", message)
        self._notices.say(record.pod, WARNING, reason, message)

    def _doubt(self, uid: str) -> None:
        alone = not self._doubted
        self._doubted[uid] = None
        if alone:
            self.look_again()

    def _take_in(self, record: PodRecord) -> None:
        record.admitted = True
        self._taken.changed(record.uid)
        self.recount(record)

    def _refusal(self, record: PodRecord) -> tuple[str, str] | None:
        spec = record.pod["spec"]
        if self.pressed and (kept_out := eviction.refusal(record.pod, record.qos, self.pressed)) is not None:
            return kept_out
        if (forbidden := sysctls.refusal(record.pod)) is not None:
            return forbidden
        if not record.static and not placement.matches(spec, self.labels, self._config.node_name):
            return placement.REFUSAL
        missing = allocate.shortages(pod_requests(record.pod), self.room(record.uid), adding=True)
        if not missing:
            return self._without_cpus(record)
        if allocate.is_critical(record.pod) and self._evictions.make_room(record, missing, self._holders(record.uid)):
            self._outside.add(record.uid)
            return None
        return missing[0].reason, missing[0].message

    def _without_cpus(self, record: PodRecord) -> tuple[str, str] | None:
        short = self._cpus.claim(record.pod, record.desired, record.qos)
        if short is None:
            return None
        if any((other := self._records.get(uid)) is None or not other.holds for uid in self._cpus.uids()):
            # CPUs of a pod that is going are free as soon as nothing of it runs.
            self._outside.add(record.uid)
            return None
        return "UnexpectedAdmissionError", f"Allocate failed due to {short.message}, which is unexpected"

    # --- resizes
    def desire_changed(self, record: PodRecord, before: Desired) -> None:
        """The spec asks for another size than `before`, which mostly is what it was promised."""
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
        if record.resize.pending is not None:
            record.story.tell("reverted", "what is desired is allocated already")
            self._set_pending(record, "", "")

    def find_pending(self) -> None:
        """At the start: whatever was asked for while the agent was away is looked at at once."""
        for record in self._records.values():
            allocated = self._ledger.allocated(record.uid)
            if allocated is None or not record.admitted or not record.holds:
                continue
            if not equal(record.desired, allocated):
                self._pending.setdefault(record.uid)
            elif record.resize.pending is not None:
                self._set_pending(record, "", "")
        if self._pending:
            self.retry("pods_added")

    def drop(self, uid: str) -> None:
        """The pod is going or gone: what it held is free, what it asked for is not decided any more."""
        self._taken.changed(uid)
        self._freeing.forget(uid)
        self._pending.pop(uid, None)
        self._doubted.pop(uid, None)
        record = self._records.get(uid)
        if record is not None and record.resize.pending is not None:
            self._set_pending(record, "", "")

    def retry(self, trigger: str) -> None:
        self._triggers.append(trigger)
        if self._round is None or self._round.done():
            self._round = self._tasks.start(self._rounds(), "allocate")

    async def _rounds(self) -> None:
        while self._triggers:
            trigger = self._triggers[-1]
            self._triggers.clear()
            await self._one_round(trigger)
        self._wake_later()

    def _wake_later(self) -> None:
        if self._timer is not None and self._timer is not asyncio.current_task():
            self._timer.cancel()
        self._timer = self._tasks.start(self._periodic(), "allocate-later") if self._pending else None

    async def _periodic(self) -> None:
        delay = min(self._config.retry_s, 2.0**self._failures) if self._failures else self._config.retry_s
        silent_s = self._freeing.patience_s(self._pending)
        await self._clock.sleep(delay if silent_s is None else min(delay, silent_s))
        self._timer = None
        self.retry("periodic_retry")

    def _queue(self) -> list[PodRecord]:
        """Without pods whose promise is gone already: one that is held by a finalizer outlives it."""
        waiting = [one for uid in self._pending if (one := self._records.get(uid)) and self._ledger.allocated(uid)]
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
        everybody = self.room("") if len(queue) > 1 else None
        for record in queue:
            before, held = self._ledger.allocated(record.uid), record.used
            if before is None:
                continue
            counts = record.holds
            if everybody is None:
                room = self.room(record.uid)
            else:
                room = _without(everybody, held) if counts else everybody
            if self._attempt(record, before, room):
                granted.append((record, before))
                if everybody is not None and counts:
                    everybody = Room(room.allocatable, _sum(room.used, record.used), room.pods + 1, room.max_pods)
        if granted:
            await self._promise(granted, trigger)

    async def _promise(self, granted: list[tuple[PodRecord, Allocated]], trigger: str) -> None:
        try:
            await self._cpus.flush()
            await self._ledger.flush()
        except OSError as error:
            self._take_back(self._still_here(granted), error)
            return
        self._failures = 0
        for record, before in self._still_here(granted):
            self._tell_granted(record, before, trigger)

    def _still_here(self, granted: list[tuple[PodRecord, Allocated]]) -> list[tuple[PodRecord, Allocated]]:
        """Without the pods that went while their promise was being written."""
        return [(record, before) for record, before in granted if self._ledger.allocated(record.uid) is not None]

    def _attempt(self, record: PodRecord, before: Allocated, room: Room) -> bool:
        """One pod of the queue; True when it got what it wants (in memory: not yet to be acted on)."""
        desired = record.desired
        sized, policy = record.sized(desired), self._config.policy
        kept_out = eviction.refusal(record.pod, record.qos, self.pressed) if self.pressed else None
        whole_cpus = policy.exclusive_cpus_resize or allocate.resizes_whole_cpus(record.pod)
        vms = machines_of(record.state)
        verdict = allocate.decide(
            record.pod, desired, before, room, record.qos, policy, sized, kept_out, whole_cpus, vms
        )
        if record.finished and not isinstance(verdict, Unchanged):
            # Nothing will ever run with it.
            verdict = Granted()
        elif isinstance(verdict, Granted) and (short := self._cpus.claim(record.pod, desired, record.qos)) is not None:
            verdict = Deferred("OutOfcpu", short.message)
        match verdict:
            case Unchanged():
                self._reverted(record)
            case Granted():
                self._pending.pop(record.uid, None)
                self._ledger.allocate(record.uid, Allocated(desired.containers, desired.pod))
                self.recount(record)
                return True
            case Deferred():
                self._defer(record, verdict)
            case Infeasible(detail, message):
                self._pending.pop(record.uid, None)
                self._metrics.infeasible.labels(detail).inc()
                self._refuse(record, INFEASIBLE, INFEASIBLE, message)
        return False

    def _defer(self, record: PodRecord, verdict: Deferred) -> None:
        if (
            allocate.is_critical(record.pod)
            and verdict.missing
            and self._evictions.make_room(record, verdict.missing, self._holders(record.uid))
        ):
            return
        if verdict.missing and self._freeing.keep_silent(record.uid, verdict.missing):
            record.story.tell("waiting", "decreases under way will make room")
            return
        self._refuse(record, DEFERRED, verdict.reason, verdict.message)

    def _refuse(self, record: PodRecord, reason: str, raw: str, message: str) -> None:
        before = record.resize.pending
        news = before is None or before.reason != reason or before.generation != record.generation
        self._set_pending(record, reason, message)
        if news:
            record.story.tell(reason.lower(), message)
            shown = record.sized(record.desired).shown
            self._notices.refused(record.pod, f"Resize{reason}", raw, shown, message)

    def _set_pending(self, record: PodRecord, reason: str, message: str) -> None:
        before = record.resize.pending
        if reason:
            record.resize = record.resize.refused(reason, message, record.generation, self._clock.now())
        else:
            record.resize = record.resize.without_pending()
        self._metrics.pending_changed(before.reason if before else "", reason)
        if record.resize.pending != before:
            self._kick(record.uid)

    def _tell_granted(self, record: PodRecord, before: Allocated, trigger: str) -> None:
        after = self._ledger.allocated(record.uid)
        assert after is not None
        if record.finished:
            # A pod that is over takes any size; nothing will ever be done about it.
            self._notices.started(record.pod, record.sized(after).shown, record.generation)
            return
        waited = record.resize.pending is not None and record.resize.pending.reason == DEFERRED
        if waited:
            self._metrics.accepted_after_waiting(trigger)
        if record.resize.pending is not None:
            self._metrics.pending_changed(record.resize.pending.reason, "")
        if record.resize.in_progress is None:
            self._metrics.in_progress.inc()
        record.resize = record.resize.granted(record.generation, self._clock.now())
        record.held.clear()
        for name, backoff in record.backoff.items():
            if name in after.containers and not same(after.containers[name], before.containers.get(name)):
                backoff.reset()
        record.story.tell("allocated", trigger, generation=record.generation, sizes=after.containers)
        self._notices.started(record.pod, record.sized(after).shown, record.generation)
        self._kick(record.uid)

    def _take_back(self, granted: list[tuple[PodRecord, Allocated]], error: OSError) -> None:
        """A promise that cannot be written is no promise."""
        log.error("allocations could not be written (%s): trying again", error)
        self._failures += 1
        for record, before in granted:
            self._ledger.allocate(record.uid, before)
            self._cpus.claim(record.pod, before, record.qos)
            self._pending.setdefault(record.uid)
            self.recount(record)
            record.story.tell("not allocated", f"the ledger could not be written: {system_words(error)}")


def _without(room: Room, held: Amounts) -> Room:
    left = {name: total - held[name] if name in held else total for name, total in room.used.items()}
    return Room(room.allocatable, left, room.pods - 1, room.max_pods)


def _sum(used: Mapping[str, Quantity], more: Amounts) -> Amounts:
    total = dict(used)
    add_into(total, more)
    return total
