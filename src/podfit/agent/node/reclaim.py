"""Evicts pods under memory or disk pressure, and pods that exceed their disk limits.

Evicts one pod at a time, until the readings are above the thresholds again. Unused files and images are deleted first.
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.allocation.evictions import Evictions
from podfit.agent.core import Core
from podfit.agent.decide.node import eviction, storage
from podfit.agent.decide.node.eviction import EVICTED, INODES, Consumer
from podfit.agent.decide.node.pressure import CrossedThreshold
from podfit.agent.decide.node.storage import STORAGE
from podfit.agent.decide.node.thresholds import DISK, INODE_SIGNALS
from podfit.agent.decide.resize.allocate import is_critical
from podfit.agent.node.disk_usage import DiskMeter
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import RUNNING, RuntimeFailure
from podfit.api.objects import Object

GRACE_S = 1.0
"""A short grace period, because the kernel's OOM killer would otherwise choose a victim first."""


class Reclaimer:
    def __init__(self, core: Core, records: Mapping[str, PodRecord], evictions: Evictions, meter: DiskMeter) -> None:
        self._records, self._ledger, self._runtime = records, core.ledger, core.runtime
        self._evictions, self._meter = evictions, meter

    async def relieve(self, met: CrossedThreshold) -> bool:
        """Evicts a pod, unless one is being evicted. False if there is none to evict."""
        active = self._active()
        if any(pod.termination is not None and pod.termination.reason == EVICTED for pod in active):
            # The evicted pod's resources are not free yet.
            return True
        consumers = [await self._consumer(pod, met) for pod in active if pod.termination is None]
        chosen = eviction.victim(consumers)
        record = self._records.get(chosen.uid) if chosen is not None else None
        if chosen is None or record is None or record.termination is not None:
            return False
        self._evictions.evict(record, EVICTED, eviction.message(met, chosen), GRACE_S)
        return True

    async def enforce(self) -> bool:
        """Evicts pods that exceed their disk limits. True if any did."""
        evicted = False
        for record in self._active():
            pod = self._sized(record)
            if record.termination is not None or is_critical(pod) or not storage.is_limited(pod):
                continue
            use = await self._meter.use(record)
            why = storage.over_limit(pod, use) if use is not None else ""
            if why and record.termination is None:
                self._evictions.evict(record, EVICTED, why, GRACE_S, disrupted=False)
                evicted = True
        return evicted

    def _active(self) -> list[PodRecord]:
        return [record for record in self._records.values() if record.admitted and not record.terminal]

    def _sized(self, record: PodRecord) -> Object:
        allocated = self._ledger.allocated(record.uid)
        return record.sized(allocated).pod if allocated is not None else record.pod

    async def _consumer(self, record: PodRecord, met: CrossedThreshold) -> Consumer:
        if met.threshold.condition == DISK:
            return await self._disk_consumer(record, INODES if met.threshold.signal in INODE_SIGNALS else STORAGE)
        pod = self._sized(record)
        try:
            used = (await self._runtime.pod_usage(record.uid)).working_set_bytes
            containers = {
                container.name: (await self._runtime.container_usage(container.id)).working_set_bytes
                for container in (record.state.containers if record.state is not None else ())
                if container.state == RUNNING
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
