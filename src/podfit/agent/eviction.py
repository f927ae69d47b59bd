"""Room for critical pods: ends others that matter less. Victims count until they are gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from podfit.agent.decide import allocate
from podfit.agent.decide.allocate import Candidate, Shortage
from podfit.agent.notices import WARNING, Notices
from podfit.agent.record import Ending, PodRecord
from podfit.api.quantity import Quantity
from podfit.api.resources import Amounts

PREEMPTED = "Preempted in order to admit critical pod"


class Evictions:
    def __init__(self, records: Mapping[str, PodRecord], notices: Notices, kick: Callable[[str], None]) -> None:
        self._records, self._notices, self._kick = records, notices, kick

    def make_room(self, record: PodRecord, missing: Sequence[Shortage], others: list[PodRecord]) -> bool:
        """True when enough is on its way out, or was already. `others` are the pods that hold something."""
        leaving = [one for one in others if one.ending is not None]
        candidates = [
            Candidate(
                one.uid, one.qos, int(one.pod["spec"].get("priority") or 0), allocate.is_critical(one.pod), one.used
            )
            for one in others
            if one.ending is None
        ]
        still = [
            replace(short, used=short.used - sum(_units(one.used, short.resource) for one in leaving))
            for short in missing
        ]
        still = [short for short in still if short.requested > short.capacity - short.used]
        if not still:
            return True
        chosen = allocate.victims(int(record.pod["spec"].get("priority") or 0), still, candidates)
        for uid in chosen:
            self.evict(self._records[uid], "Preempting", PREEMPTED)
        return bool(chosen)

    def evict(
        self, victim: PodRecord, reason: str, message: str, grace_s: float | None = None, disrupted: bool = True
    ) -> None:
        """With the pod's own grace, or a shorter one. Not `disrupted` is a pod that has itself to blame."""
        grace = victim.grace_s if grace_s is None else min(grace_s, victim.grace_s)
        victim.ending = Ending(grace, reason, message, disrupted=disrupted)
        victim.story.tell("evicted", message)
        self._notices.say(victim.pod, WARNING, reason, message)
        self._kick(victim.uid)


def _units(amounts: Amounts, name: str) -> int:
    if name == "pods":
        return 1
    quantity = amounts.get(name, Quantity(0))
    return quantity.milli if name == "cpu" else quantity.value
