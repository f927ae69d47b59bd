"""Tracks the pods of this node: those bound to it, those being migrated to it, and static pods.

Watch events become new, updated or terminating records; the allocator is notified of each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from podfit.agent.actuation import attempts
from podfit.agent.actuation.adoption import Adoption
from podfit.agent.actuation.restarts import Restarts
from podfit.agent.allocation.admission import Admission
from podfit.agent.allocation.allocator import Allocator
from podfit.agent.core import Core
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide.resize.allocate import MIRROR
from podfit.agent.pods import termination
from podfit.agent.pods.conditions import Conditions
from podfit.agent.pods.record import PodRecord
from podfit.agent.pods.story import Story
from podfit.agent.roster.updates import PodUpdates, newer
from podfit.agent.runtimes.values import PodState
from podfit.api.objects import Object
from podfit.api.pods.migrations import moving
from podfit.api.pods.resources import qos_class
from podfit.api.resize.states import equal

_TERMINAL = ("Succeeded", "Failed")
_NEVER: Object = {"metadata": {}}
_REMEMBERED = 1000


class Roster:
    def __init__(
        self,
        core: Core,
        records: dict[str, PodRecord],
        updates: PodUpdates,
        allocator: Allocator,
        admission: Admission,
        adoption: Adoption,
        restarts: Restarts,
        cpus: CpuPolicy,
    ) -> None:
        self._core, self._records, self._updates = core, records, updates
        self._allocator, self._admission, self._adoption = allocator, admission, adoption
        self._restarts, self._cpus = restarts, cpus
        self._conditions: Conditions = updates.conditions
        self._deleted: OrderedDict[str, Object] = OrderedDict()
        """Recently deleted pods, and when (as a resourceVersion)."""

    # --- startup
    async def take_over(self, pods: list[Object]) -> None:
        """Adopts the node's pods. Those that already hold an allocation are restored first, so that a new pod cannot
        take their resources."""
        ledger = self._core.ledger
        running = {state.config.uid: state for state in await self._core.runtime.pods()}
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if uid in running and not _terminal(pod):
                await self._adoption.adopt(pod, running[uid])
                self._claim_cpus(pod)
        await ledger.flush()
        for record in list(self._records.values()):
            if record.uid in running:
                await self._adoption.adopt(record.pod, running[record.uid])
        known = ledger.uids()
        for pod in sorted(pods, key=lambda pod: (pod["metadata"]["uid"] not in known, _age(pod))):
            if not is_mirror(pod):
                uid = pod["metadata"]["uid"]
                self.add(pod, uid in running, state=running.get(uid))

    def _claim_cpus(self, pod: Object) -> None:
        """Assigns a running pod's CPUs before any pod that is not running yet can be assigned them."""
        if (allocated := self._core.ledger.allocated(pod["metadata"]["uid"])) is not None:
            qos = (pod.get("status") or {}).get("qosClass") or qos_class(pod)
            self._cpus.claim(pod, allocated, qos)

    def add(
        self,
        pod: Object,
        adopted: bool = False,
        static: bool = False,
        state: PodState | None = None,
        coming: bool = False,
    ) -> None:
        """`state`: the state of a pod that was running before the agent started, with the bounds of its virtual
        machines. The pod's resize is decided again at once."""
        uid, over = pod["metadata"]["uid"], _terminal(pod)
        record = PodRecord(
            uid,
            pod,
            Story(self._core.clock),
            static=static,
            adopted=adopted,
            unverified=adopted,
            state=state,
            coming=coming,
            finished=over,
        )
        self._records[uid] = record
        if over:
            self._admission.restore_finished(record)
            self._allocator.drop(uid)
        else:
            self._restarts.restore(record)
            self._conditions.restore(record)
            self._admission.admit(record)
            if adopted:
                record.story.add("adopted", "it was running before the agent started")
        termination.deleted(record)
        self._core.queue.enqueue(uid)

    def remove_missing(self, known: Collection[str]) -> None:
        """Removes pods that were deleted while running pods were adopted, when watch events were not handled yet."""
        for record in list(self._records.values()):
            if not record.static and not record.coming and record.uid not in known:
                self._on_deleted(record.uid)

    # --- the watch
    def changed(self, before: Object | None, after: Object | None) -> None:
        last = after if after is not None else before
        assert last is not None
        uid = last["metadata"]["uid"]
        if after is None:
            self._remember_deleted(last)
            self._on_deleted(uid)
            return
        if before is not None and before["metadata"]["uid"] != uid:
            self._remember_deleted(after, before["metadata"]["uid"])
            self._on_deleted(before["metadata"]["uid"])
        record = self._records.get(uid)
        if record is not None and record.coming:
            self._arrived(record, after)
        elif record is not None:
            self._updates.watched(record, after)
        elif not newer(self._deleted.get(uid, _NEVER), after):
            self.add(after)

    def _remember_deleted(self, last: Object, uid: str = "") -> None:
        """A late event does not bring a deleted pod back."""
        revision = {"resourceVersion": last["metadata"].get("resourceVersion")}
        self._deleted[uid or last["metadata"]["uid"]] = {"metadata": revision}
        while len(self._deleted) > _REMEMBERED:
            self._deleted.popitem(last=False)

    def _on_deleted(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is None:
            return
        if record.removed:
            self.forget(uid)
            self._allocator.on_room_freed("pods_removed", uid)
            return
        migration = moving(record.pod)
        record.left = migration is not None and migration.source == self._core.config.node_name
        termination.gone(record)
        self._release(uid)

    # --- pods that are being migrated to this node
    def expect(self, before: Object | None, after: Object | None) -> PodRecord | None:
        """Handles a watch event of a pod that is being migrated here. Returns a record whose pod no longer is: it has
        arrived, or will not arrive."""
        last = after if after is not None else before
        assert last is not None
        record = self._records.get(last["metadata"]["uid"])
        if after is None:
            return record if record is not None and record.coming else None
        migration = moving(after)
        if migration is None or migration.target != self._core.config.node_name:
            return None
        if record is None:
            self.add(after, coming=True)
        elif record.coming and not newer(record.pod, after):
            self._updates.replace(record, after)
            self._core.queue.enqueue(record.uid)
        return None

    def migration_failed(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is not None and record.coming:
            self._on_deleted(uid)

    def _arrived(self, record: PodRecord, pod: Object) -> None:
        """Turns a record into that of a regular pod: it now belongs to this node, and has been running here for a
        moment."""
        before = record.desired
        record.coming, record.adopted = False, True
        attempts.mark_unverified(record)
        self._updates.replace(record, pod)
        self._conditions.restore(record)
        self._allocator.recount(record)
        allocated = self._core.ledger.allocated(record.uid)
        if allocated is not None and not equal(record.desired, allocated):
            self._allocator.desire_changed(record, before)
        termination.deleted(record)
        self._core.queue.enqueue(record.uid)

    # --- called by other components
    def record(self, uid: str) -> PodRecord | None:
        return self._records.get(uid)

    def terminate_static(self, record: PodRecord) -> None:
        """Terminates a static pod whose file was removed."""
        termination.file_removed(record)
        self._release(record.uid)

    def _release(self, uid: str) -> None:
        self._allocator.drop(uid)
        self._allocator.on_room_freed("pods_removed", uid)
        self._core.queue.enqueue(uid)

    def forget(self, uid: str) -> None:
        self._allocator.drop(uid)
        record = self._records.pop(uid, None)
        if record is not None:
            record.jobs.cancel()
            if record.memory_wait is not None:
                record.memory_wait.cancel()


def is_mirror(pod: Object) -> bool:
    return MIRROR in (pod["metadata"].get("annotations") or {})


def _terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _TERMINAL


def _age(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")
