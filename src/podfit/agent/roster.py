"""Which pods are this node's: turns what the watch says into records, endings and questions to the allocator."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection

from podfit.agent.adopt import adopt
from podfit.agent.allocator import Allocator
from podfit.agent.config import AgentConfig
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide import conditions
from podfit.agent.decide.allocate import MIRROR
from podfit.agent.decide.states import Object, equal
from podfit.agent.ledger import Ledger
from podfit.agent.metrics import AgentMetrics
from podfit.agent.record import Ending, PodRecord
from podfit.agent.report import newer, only_status_differs
from podfit.agent.runtimes.base import PodState, Runtime
from podfit.agent.story import Story
from podfit.api.migrations import moving
from podfit.api.resources import qos_class
from podfit.kit.clock import Clock

log = logging.getLogger(__name__)

_TERMINAL = ("Succeeded", "Failed")
_NEVER: Object = {"metadata": {}}
_REMEMBERED = 1000


class Roster:
    def __init__(
        self,
        config: AgentConfig,
        records: dict[str, PodRecord],
        ledger: Ledger,
        runtime: Runtime,
        allocator: Allocator,
        cpus: CpuPolicy,
        metrics: AgentMetrics,
        clock: Clock,
        kick: Callable[[str], None],
    ) -> None:
        self._config, self._records, self._ledger, self._runtime = config, records, ledger, runtime
        self._allocator, self._cpus, self._metrics = allocator, cpus, metrics
        self._clock, self._kick = clock, kick
        self.mirrors: Callable[[Object | None, Object | None], None] = lambda before, after: None
        """Told of mirror pods; set by the static pods."""
        self.left: Callable[[str], None] = lambda uid: None
        """Told of pods that are forgotten; set by the static pods."""
        self.unsure: Callable[[PodRecord], None] = lambda record: None
        """Told of a pod on its way here that is not any more: it has come, or it does not; set by the agent."""
        self._past: OrderedDict[str, Object] = OrderedDict()
        """Pods that were deleted lately, and when (as a resourceVersion)."""

    # --- the start
    async def take_over(self, pods: list[Object]) -> None:
        """Pods with a promise first: nobody new is admitted at their cost."""
        running = {state.config.uid: state for state in await self._runtime.pods()}
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if uid in running and not _terminal(pod):
                await adopt(pod, running[uid], self._ledger, self._runtime)
                self._claim_cpus(pod)
        await self._ledger.flush()
        for record in list(self._records.values()):
            if record.uid in running:
                await adopt(record.pod, running[record.uid], self._ledger, self._runtime)
        known = self._ledger.uids()
        for pod in sorted(pods, key=lambda one: (one["metadata"]["uid"] not in known, _age(one))):
            if MIRROR in (pod["metadata"].get("annotations") or {}):
                continue
            self.add(pod, pod["metadata"]["uid"] in running, state=running.get(pod["metadata"]["uid"]))

    def _claim_cpus(self, pod: Object) -> None:
        """Before any pod that does not run yet can be assigned the CPUs that this one runs on."""
        if (allocated := self._ledger.allocated(pod["metadata"]["uid"])) is not None:
            qos = (pod.get("status") or {}).get("qosClass") or qos_class(pod)
            self._cpus.claim(pod, allocated, qos)

    # --- pods that are being migrated to this node
    def coming(self, before: Object | None, after: Object | None) -> None:
        """What the watch of pods on their way here brings."""
        last = after if after is not None else before
        assert last is not None
        record = self._records.get(last["metadata"]["uid"])
        if after is None:
            if record is not None and record.coming:
                self.unsure(record)
            return
        migration = moving(after)
        if migration is None or migration.target != self._config.node_name:
            return
        if record is None:
            self.add(after, coming=True)
        elif record.coming and not newer(record.pod, after):
            record.pod = after
            self._kick(record.uid)

    def not_coming(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is not None and record.coming:
            self._gone(uid)

    def _arrived(self, record: PodRecord, pod: Object) -> None:
        """It is this node's pod now; it has been running here for a moment."""
        before = record.desired
        record.coming, record.adopted, record.doubtful, record.pod = False, True, True, pod
        record.resize = conditions.from_status(pod.get("status") or {})
        self._count_conditions(record)
        self._allocator.recount(record)
        allocated = self._ledger.allocated(record.uid)
        if allocated is not None and not equal(record.desired, allocated):
            self._allocator.desire_changed(record, before)
        self._mark_ending(record)
        self._kick(record.uid)

    def add(
        self,
        pod: Object,
        adopted: bool = False,
        static: bool = False,
        state: PodState | None = None,
        coming: bool = False,
    ) -> None:
        """`state`: of a pod that ran on while the agent was away. Its resize is decided again at once, and the bounds
        of a virtual machine are in it."""
        uid = pod["metadata"]["uid"]
        record = PodRecord(uid, pod, Story(self._clock), static=static, adopted=adopted, doubtful=adopted, state=state)
        record.coming = coming
        self._records[uid] = record
        status = pod.get("status") or {}
        if _terminal(pod):
            record.finished = True
            record.rejected = None
            record.admitted = self._ledger.allocated(uid) is not None
            self._allocator.drop(uid)
        else:
            record.resize = conditions.from_status(status)
            record.restarting = dict(self._ledger.restarting(uid))
            self._count_conditions(record)
            self._allocator.admit(record)
            if adopted:
                record.story.tell("adopted", "it ran on while the agent was away")
        self._mark_ending(record)
        self._kick(uid)

    def _count_conditions(self, record: PodRecord) -> None:
        if record.resize.pending is not None:
            self._metrics.pending_changed("", record.resize.pending.reason)
        if record.resize.in_progress is not None:
            self._metrics.in_progress.inc()

    def miss(self, known: Collection[str]) -> None:
        """Pods deleted while those that ran were taken over: nobody was there to hear of it."""
        for record in list(self._records.values()):
            if not record.static and not record.coming and record.uid not in known:
                self._gone(record.uid)

    # --- the watch
    def changed(self, before: Object | None, after: Object | None) -> None:
        last = after if after is not None else before
        assert last is not None
        if MIRROR in (last["metadata"].get("annotations") or {}):
            self.mirrors(before, after)
            return
        uid = last["metadata"]["uid"]
        if after is None:
            self._bury(last)
            self._gone(uid)
            return
        if before is not None and before["metadata"]["uid"] != uid:
            self._bury(after, before["metadata"]["uid"])
            self._gone(before["metadata"]["uid"])
        record = self._records.get(uid)
        if record is not None and record.coming:
            self._arrived(record, after)
        elif record is not None:
            self._update(record, after)
        elif not newer(self._past.get(uid, _NEVER), after):
            self.add(after)

    def _bury(self, last: Object, uid: str = "") -> None:
        """Whoever is deleted stays so: an older event that comes late does not bring it back."""
        revision = {"resourceVersion": last["metadata"].get("resourceVersion")}
        self._past[uid or last["metadata"]["uid"]] = {"metadata": revision}
        while len(self._past) > _REMEMBERED:
            self._past.popitem(last=False)

    def _update(self, record: PodRecord, after: Object) -> None:
        if newer(record.pod, after):
            return
        if after["metadata"].get("resourceVersion") == record.written:
            # Our own echo says nothing new, but the cache's copy saves keeping another.
            record.echoed(after)
            return
        if record.writing and only_status_differs(record.pod, after):
            # A server in this process may show what we write before it answers: then the reporter will know.
            if record.early is not None:
                # At most one of them is ours.
                self._kick(record.uid)
            record.early = after
            return
        self.take(record, after)

    def take(self, record: PodRecord, after: Object) -> None:
        """A newer state of the pod, with news."""
        desired_before, generation_before = record.desired, record.generation
        record.pod = after
        desired = record.desired
        if record.terminal:
            if record.admitted and not record.removed and not equal(desired, desired_before):
                self._allocator.desire_changed(record, desired_before)
            self._finish_terminal(record)
            return
        if not equal(desired, desired_before):
            self._metrics.resize_requested(desired_before, desired)
            record.story.tell("desired", "the spec changed", generation=record.generation)
            self._allocator.desire_changed(record, desired_before)
        elif record.admitted:
            self._allocator.recount(record)
            record.resize = record.resize.confirmed(generation_before, record.generation)
        self._mark_ending(record)
        self._kick(record.uid)

    def missed(self, record: PodRecord, after: Object) -> None:
        """What came while a status was on its way, now that it is known whether that is its echo."""
        if self._records.get(record.uid) is not record:
            return
        if after["metadata"].get("resourceVersion") != record.written:
            # Our status may stand on top of it, but was not made from it.
            self._kick(record.uid)
        self._update(record, after)

    def _finish_terminal(self, record: PodRecord) -> None:
        """Nothing of it runs: all that is left is to let its object go."""
        self._mark_ending(record)
        if record.ending is not None:
            self._kick(record.uid)

    def _mark_ending(self, record: PodRecord) -> None:
        meta = record.pod["metadata"]
        if not meta.get("deletionTimestamp"):
            return
        grace = float(meta.get("deletionGracePeriodSeconds") or 0)
        before = record.ending
        if before is None:
            record.ending = Ending(grace)
            record.story.tell("deleting", "deleted in the API", grace_s=grace)
        elif grace < before.grace_s and not before.gone:
            record.ending = Ending(grace, before.reason, before.message, before.disrupted)

    def _gone(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is None:
            return
        if record.removed:
            self.forget(uid)
            self._allocator.freed("pods_removed", uid)
            return
        before = record.ending
        grace = before.grace_s if before is not None else 0.0
        migration = moving(record.pod)
        record.left = migration is not None and migration.source == self._config.node_name
        record.ending = Ending(grace, gone=True)
        record.story.tell("gone", "no longer in the API")
        self._allocator.drop(uid)
        self._allocator.freed("pods_removed", uid)
        self._kick(uid)

    def record(self, uid: str) -> PodRecord | None:
        return self._records.get(uid)

    def end(self, record: PodRecord, ending: Ending) -> None:
        record.ending = ending
        self._allocator.drop(record.uid)
        self._allocator.freed("pods_removed", record.uid)
        self._kick(record.uid)

    def kick(self, uid: str) -> None:
        self._kick(uid)

    def forget(self, uid: str) -> None:
        self._allocator.drop(uid)
        record = self._records.pop(uid, None)
        if record is not None:
            for task in [*record.jobs.values(), *([record.memory_wait] if record.memory_wait else [])]:
                task.cancel()
            self.left(uid)


def _terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _TERMINAL


def _age(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")
