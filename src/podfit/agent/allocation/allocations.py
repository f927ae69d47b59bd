"""Maintains the sizes that this node has allocated to its pods, and computes the remaining room for admission and the
allocator. The only writer of allocated sizes."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.allocation.freeing import Freeing
from podfit.agent.allocation.node_facts import NodeFacts
from podfit.agent.allocation.reservations import Reservations
from podfit.agent.pods.ledger import Ledger
from podfit.agent.pods.record import PodRecord
from podfit.api.pods.room import Room
from podfit.api.quantity import ZERO
from podfit.api.resize.states import Allocated, Desired
from podfit.kit.clock import Clock


class Allocations:
    def __init__(self, ledger: Ledger, records: Mapping[str, PodRecord], node: NodeFacts, clock: Clock) -> None:
        self._ledger, self._records, self._node = ledger, records, node
        self._reservations, self.freeing = Reservations(records), Freeing(records, clock)

    def room(self, uid: str) -> Room:
        """The resources that other pods leave free."""
        used, pods = self._reservations.by_others(uid)
        return Room(self._node.allocatable, used, pods, self._node.max_pods)

    def holders(self, but: str) -> list[PodRecord]:
        """All pods that hold resources, except this one."""
        return [record for record in self._records.values() if record.admitted and record.holds and record.uid != but]

    # --- writing: in memory only; callers flush the ledger before they act on a change
    def grant(self, record: PodRecord, sizes: Desired | Allocated) -> bool:
        """Allocates a size to the pod. True if the pod now holds less than before."""
        self._ledger.allocate(record.uid, Allocated(sizes.containers, sizes.pod))
        return self.recount(record)

    def revert(self, record: PodRecord, before: Allocated) -> bool:
        """Reverts an allocation that could not be persisted. True if the pod holds less than it would have."""
        self._ledger.allocate(record.uid, before)
        return self.recount(record)

    def restore(self, uid: str, allocated: Allocated) -> None:
        """Restores the allocation of a running pod whose ledger entry is lost."""
        self._ledger.allocate(uid, allocated)

    # --- counting
    def recount(self, record: PodRecord) -> bool:
        """Updates the counted resources after the allocation or the status changed. True if the pod now holds less."""
        allocated = self._ledger.allocated(record.uid)
        if allocated is None:
            return False
        counted = record.counted
        if counted is not None and counted[0] is record.pod and counted[1] is allocated:
            return False
        record.counted = (record.pod, allocated)
        sized = record.sized(allocated)
        before, record.used = record.used, sized.held
        self._reservations.changed(record.uid)
        self.freeing.counted(record.uid, allocated, record.used, sized.requests)
        return any(record.used.get(name, ZERO).nanos < held.nanos for name, held in before.items())

    def admitted(self, record: PodRecord) -> None:
        self._reservations.changed(record.uid)
        self.recount(record)

    def drop(self, uid: str) -> None:
        """Stops counting a pod that is terminating or gone: its resources are free."""
        self._reservations.changed(uid)
        self.freeing.forget(uid)
