"""Admits new pods: allocates their size, or rejects them with the reason that a kubelet would give.

A pod that fits only once other pods have left waits: a critical pod evicts pods of lower priority, and a pod that needs
exclusive CPUs waits for those of a terminating pod.
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.allocation.allocations import Allocations
from podfit.agent.allocation.evictions import Evictions
from podfit.agent.allocation.node_facts import NodeFacts
from podfit.agent.core import Core
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide.node import eviction, placement
from podfit.agent.decide.pod import sysctls
from podfit.agent.decide.resize import allocate
from podfit.agent.pods.events import WARNING
from podfit.agent.pods.record import PodRecord
from podfit.api.pods.host_ports import any_collide, host_ports
from podfit.api.pods.resources import pod_requests
from podfit.api.pods.room import shortages
from podfit.api.resize.verdicts import Shortage

PORTS_TAKEN = ("NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")
"""The reason and message of a rejection because a host port is in use."""


class Admission:
    def __init__(
        self,
        core: Core,
        records: Mapping[str, PodRecord],
        node: NodeFacts,
        allocations: Allocations,
        evictions: Evictions,
        cpus: CpuPolicy,
    ) -> None:
        self._config, self._ledger, self._events = core.config, core.ledger, core.events
        self._queue, self._tasks = core.queue, core.tasks
        self._records, self._node, self._allocations = records, node, allocations
        self._evictions, self._cpus = evictions, cpus
        self._waiting: set[str] = set()
        """Pods that are admitted once others have left."""
        self._unsure: dict[str, None] = {}
        """Pods that do not match the node's labels: the Node is read again before they are rejected."""

    def restore_finished(self, record: PodRecord) -> None:
        """Restores a pod that was already finished when the agent started."""
        record.admitted = self._ledger.allocated(record.uid) is not None

    def admit(self, record: PodRecord, refreshed: bool = False) -> None:
        """Allocates the pod's size or rejects it. A pod with an allocation keeps it without another decision.

        `refreshed`: the Node was read after the pod arrived.
        """
        if (allocated := self._ledger.allocated(record.uid)) is not None:
            self._cpus.claim(record.pod, allocated, record.qos)
            self._admitted(record)
            return
        refusal = self._refusal(record)
        if record.uid in self._waiting:
            return
        if refusal == placement.REFUSAL and not refreshed:
            self._await_refresh(record.uid)
            return
        if refusal is None:
            self._allocations.grant(record, record.desired)
            self._admitted(record)
            record.story.add("admitted", "there is room", requests={k: str(v) for k, v in record.used.items()})
            return
        reason, message = refusal
        record.rejected = (reason, f"Pod was rejected: {message}")
        record.story.add("rejected", message)
        self._events.emit(record.pod, WARNING, reason, message)

    def retry_waiting(self) -> None:
        """Retries waiting pods after others have left."""
        for uid in list(self._waiting):
            self._waiting.discard(uid)
            if uid in self._records:
                self.admit(self._records[uid])
                self._queue.enqueue(uid)

    def drop(self, uid: str) -> None:
        self._unsure.pop(uid, None)

    def _admitted(self, record: PodRecord) -> None:
        record.admitted = True
        self._allocations.admitted(record)

    # --- labels that may be newer than the agent's copy
    def _await_refresh(self, uid: str) -> None:
        first = not self._unsure
        self._unsure[uid] = None
        if first:
            self._tasks.start(self._refresh(), "refresh-node")

    async def _refresh(self) -> None:
        await self._node.refresh()
        unsure, self._unsure = self._unsure, {}
        for uid in unsure:
            record = self._records.get(uid)
            if record is not None and record.termination is None:
                self.admit(record, refreshed=True)
                self._queue.enqueue(uid)

    # --- the decision
    def _refusal(self, record: PodRecord) -> tuple[str, str] | None:
        spec, pressed = record.pod["spec"], self._node.pressed
        if pressed and (kept_out := eviction.refusal(record.pod, record.qos, pressed)) is not None:
            return kept_out
        if (forbidden := sysctls.refusal(record.pod)) is not None:
            return forbidden
        if not record.static and not placement.matches(spec, self._node.labels, self._config.node_name):
            return placement.REFUSAL
        missing = shortages(pod_requests(record.pod), self._allocations.room(record.uid), adding=True)
        if not missing:
            return PORTS_TAKEN if self._ports_taken(record) else self._without_cpus(record)
        if self.make_room(record, missing):
            self._waiting.add(record.uid)
            return None
        return missing[0].reason, missing[0].message

    def _ports_taken(self, record: PodRecord) -> bool:
        wanted = host_ports(record.pod["spec"])
        if not wanted:
            return False
        others = self._allocations.holders(but=record.uid)
        return any_collide(wanted, (port for other in others for port in host_ports(other.pod["spec"])))

    def make_room(self, record: PodRecord, missing: tuple[Shortage, ...] | list[Shortage]) -> bool:
        """Evicts pods of lower priority for a critical pod. True if enough pods are being evicted."""
        if not allocate.is_critical(record.pod):
            return False
        return self._evictions.make_room(record, missing, self._allocations.holders(but=record.uid))

    def _without_cpus(self, record: PodRecord) -> tuple[str, str] | None:
        short = self._cpus.claim(record.pod, record.desired, record.qos)
        if short is None:
            return None
        if any((other := self._records.get(uid)) is None or not other.holds for uid in self._cpus.uids()):
            # CPUs of a terminating pod are free as soon as its last container has ended.
            self._waiting.add(record.uid)
            return None
        return "UnexpectedAdmissionError", f"Allocate failed due to {short.message}, which is unexpected"
