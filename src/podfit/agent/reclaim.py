"""Takes memory back for a node that runs out of it: ends one pod at a time until the machine says that it is enough."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.decide import eviction
from podfit.agent.decide.eviction import EVICTED, Consumer
from podfit.agent.decide.pressure import Met
from podfit.agent.eviction import Evictions
from podfit.agent.ledger import Ledger
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import RUNNING, Runtime, RuntimeFailure

GRACE_S = 1.0
"""There is no time for more: the kernel is about to choose instead."""


class Reclaimer:
    def __init__(
        self, records: Mapping[str, PodRecord], ledger: Ledger, runtime: Runtime, evictions: Evictions
    ) -> None:
        self._records, self._ledger, self._runtime, self._evictions = records, ledger, runtime, evictions

    async def relieve(self, met: Met) -> None:
        active = [one for one in self._records.values() if one.admitted and not one.terminal]
        if any(one.ending is not None and one.ending.reason == EVICTED for one in active):
            # What it held is not back yet.
            return
        consumers = [await self._consumer(one) for one in active if one.ending is None]
        chosen = eviction.victim(consumers)
        record = self._records.get(chosen.uid) if chosen is not None else None
        if chosen is not None and record is not None and record.ending is None:
            self._evictions.evict(record, EVICTED, eviction.message(met, chosen), GRACE_S)

    async def _consumer(self, record: PodRecord) -> Consumer:
        allocated = self._ledger.allocated(record.uid)
        pod = record.sized(allocated).pod if allocated is not None else record.pod
        try:
            used = (await self._runtime.pod_usage(record.uid)).working_set_bytes
            containers = {
                one.name: (await self._runtime.container_usage(one.id)).working_set_bytes
                for one in (record.state.containers if record.state is not None else ())
                if one.state == RUNNING
            }
        except (RuntimeFailure, OSError):
            return Consumer(record.uid, pod, None)
        return Consumer(record.uid, pod, used, containers)
