"""Evicts pods: to make room for critical pods, and when the node runs out of memory or disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from podfit.agent.core import Core
from podfit.agent.decide.resize import allocate
from podfit.agent.decide.resize.allocate import Candidate
from podfit.agent.pods import termination
from podfit.agent.pods.events import WARNING
from podfit.agent.pods.record import PodRecord
from podfit.api.pods.resources import Amounts
from podfit.api.quantity import Quantity
from podfit.api.resize.verdicts import Shortage

PREEMPTED = "Preempted in order to admit critical pod"


class Evictions:
    def __init__(self, core: Core, records: Mapping[str, PodRecord]) -> None:
        self._events, self._queue, self._records = core.events, core.queue, records

    def make_room(self, record: PodRecord, missing: Sequence[Shortage], holders: list[PodRecord]) -> bool:
        """Evicts pods to make room. True if enough pods are being evicted. Victims count against the node until they
        are gone."""
        leaving = [holder for holder in holders if holder.termination is not None]
        candidates = [
            Candidate(holder.uid, holder.qos, _priority(holder), allocate.is_critical(holder.pod), holder.used)
            for holder in holders
            if holder.termination is None
        ]
        still = [
            replace(short, used=short.used - sum(_units(holder.used, short.resource) for holder in leaving))
            for short in missing
        ]
        still = [short for short in still if short.requested > short.capacity - short.used]
        if not still:
            return True
        chosen = allocate.victims(_priority(record), still, candidates)
        for uid in chosen:
            self.evict(self._records[uid], "Preempting", PREEMPTED)
        return bool(chosen)

    def evict(
        self, victim: PodRecord, reason: str, message: str, grace_s: float | None = None, disrupted: bool = True
    ) -> None:
        """Evicts the pod with its own grace period, or with a shorter one."""
        grace = victim.grace_s if grace_s is None else min(grace_s, victim.grace_s)
        termination.evicted(victim, reason, message, grace, disrupted)
        self._events.emit(victim.pod, WARNING, reason, message)
        self._queue.enqueue(victim.uid)


def _priority(record: PodRecord) -> int:
    return int(record.pod["spec"].get("priority") or 0)


def _units(amounts: Amounts, name: str) -> int:
    if name == "pods":
        return 1
    quantity = amounts.get(name, Quantity(0))
    return quantity.milli if name == "cpu" else quantity.value
