"""Takes memory and disk back for a node that runs out of them, and disk from pods that use more than they may.

One pod at a time is ended until the machine says that it is enough; before that, of the disk, what nobody needs goes.
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.decide import eviction, storage
from podfit.agent.decide.allocate import is_critical
from podfit.agent.decide.eviction import EVICTED, INODES, Consumer
from podfit.agent.decide.pressure import Met
from podfit.agent.decide.storage import STORAGE
from podfit.agent.decide.thresholds import DISK, INODE_SIGNALS
from podfit.agent.diskuse import DiskMeter
from podfit.agent.eviction import Evictions
from podfit.agent.ledger import Ledger
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import RUNNING, Runtime, RuntimeFailure
from podfit.api.status import Object

GRACE_S = 1.0
"""There is no time for more: the kernel is about to choose instead."""


class Reclaimer:
    def __init__(
        self,
        records: Mapping[str, PodRecord],
        ledger: Ledger,
        runtime: Runtime,
        evictions: Evictions,
        meter: DiskMeter,
    ) -> None:
        self._records, self._ledger, self._runtime, self._evictions = records, ledger, runtime, evictions
        self._meter = meter

    async def relieve(self, met: Met) -> bool:
        """Ends a pod, unless one is on its way out already; False where there is none to end."""
        active = self._active()
        if any(one.ending is not None and one.ending.reason == EVICTED for one in active):
            # What it held is not back yet.
            return True
        consumers = [await self._consumer(one, met) for one in active if one.ending is None]
        chosen = eviction.victim(consumers)
        record = self._records.get(chosen.uid) if chosen is not None else None
        if chosen is None or record is None or record.ending is not None:
            return False
        self._evictions.evict(record, EVICTED, eviction.message(met, chosen), GRACE_S)
        return True

    async def enforce(self) -> bool:
        """Ends pods that use more of the disk than their limits allow; whether there was one."""
        evicted = False
        for record in self._active():
            pod = self._sized(record)
            if record.ending is not None or is_critical(pod) or not storage.is_limited(pod):
                continue
            use = await self._meter.use(record)
            why = storage.over_limit(pod, use) if use is not None else ""
            if why and record.ending is None:
                self._evictions.evict(record, EVICTED, why, GRACE_S, disrupted=False)
                evicted = True
        return evicted

    def _active(self) -> list[PodRecord]:
        return [one for one in self._records.values() if one.admitted and not one.terminal]

    def _sized(self, record: PodRecord) -> Object:
        allocated = self._ledger.allocated(record.uid)
        return record.sized(allocated).pod if allocated is not None else record.pod

    async def _consumer(self, record: PodRecord, met: Met) -> Consumer:
        if met.threshold.condition == DISK:
            return await self._disk_consumer(record, INODES if met.threshold.signal in INODE_SIGNALS else STORAGE)
        pod = self._sized(record)
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

    async def _disk_consumer(self, record: PodRecord, resource: str) -> Consumer:
        use = await self._meter.use(record)
        if use is None:
            return Consumer(record.uid, self._sized(record), None, resource=resource)
        if resource == INODES:
            return Consumer(record.uid, self._sized(record), use.inodes, resource=resource)
        return Consumer(record.uid, self._sized(record), use.bytes, use.containers, resource)
