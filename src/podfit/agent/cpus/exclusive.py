"""Maintains the exclusive CPUs of all containers of this node, in memory and on disk, for `placement`.

A change is in memory at once and must be on disk (`flush`) before it is applied. CPUs that are still in a container's
cpuset count as in use, whatever its assignment; `placement` tracks those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from podfit.agent.cpus import checkpoint
from podfit.agent.cpus.decide.assign import Assignment, CpuClaim, Short, assign
from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus
from podfit.agent.cpus.decide.state import STATIC, CpuState
from podfit.agent.cpus.decide.topology import Topology
from podfit.agent.cpus.decide.validate import contradiction
from podfit.agent.cpus.metrics import CpuMetrics
from podfit.agent.cpus.placed import Placements


class ExclusiveCpus:
    def __init__(
        self, path: Path, topology: Topology, reserved: Cpus, metrics: CpuMetrics, durable: bool = True
    ) -> None:
        self.topology, self.reserved = topology, reserved
        self._path, self._durable, self._metrics = path, durable, metrics
        self._assigned: dict[str, dict[str, Cpus]] = {}
        self._unsaved: set[str] = set()
        """Pods whose assignment is not on disk yet."""
        self._being_saved: set[str] = set()
        self._writing = asyncio.Lock()
        self.placed = Placements()
        """The cpusets of running containers in the kernel; maintained by `placement`."""

    # --- reading
    def of(self, uid: str) -> Assignment:
        return self._assigned.get(uid, {})

    def uids(self) -> set[str]:
        return set(self._assigned)

    @property
    def shared(self) -> Cpus:
        """CPUs that are assigned to no container."""
        return self.topology.all - _all_of(self._assigned)

    @property
    def pool(self) -> Cpus:
        """The CPUs on which containers without exclusive CPUs may run now: assigned to no container, and exclusive to
        no other container in the kernel either."""
        return self.shared - _all_of(self.placed.exclusive())

    def state(self) -> CpuState:
        return CpuState(STATIC, self.shared, {uid: dict(cpus) for uid, cpus in self._assigned.items()})

    def is_durable(self, uid: str) -> bool:
        """Whether the pod's assignment may be applied."""
        return uid not in self._unsaved and uid not in self._being_saved

    # --- changing
    def claim(self, uid: str, claims: Sequence[CpuClaim], runs_on: Assignment) -> Short | None:
        """Assigns the CPUs that the pod's containers claim; changes nothing if there are too few.

        `runs_on`: CPUs that containers of the pod have exclusively in the kernel.
        """
        wanted, held = sum(1 for claim in claims if claim.count), self.of(uid)
        if not wanted and not held:
            return None
        free = self.topology.all - self.reserved - self._taken_by_others(uid)
        found = assign(self.topology, free, held, runs_on, claims)
        if not held:
            self._metrics.requested(wanted)
        if isinstance(found, Short):
            self._metrics.failed()
            return found
        self._set(uid, found)
        return None

    def _taken_by_others(self, uid: str) -> Cpus:
        assigned = {other: cpus for other, cpus in self._assigned.items() if other != uid}
        return _all_of(assigned) | _all_of(
            {other: cpus for other, cpus in self.placed.exclusive().items() if other != uid}
        )

    def release(self, uid: str) -> bool:
        """Releases the pod's CPUs. Returns whether it had exclusive ones."""
        if uid not in self._assigned:
            return False
        self._set(uid, {})
        return True

    def _set(self, uid: str, cpus: Assignment) -> None:
        if dict(cpus) == self.of(uid):
            return
        before = _all_of(self._assigned)
        self._assigned.pop(uid, None)
        if cpus:
            self._assigned[uid] = dict(cpus)
        self._unsaved.add(uid)
        self._metrics.changed(self.topology, before, _all_of(self._assigned))

    # --- the disk
    def open(self) -> None:
        """Raises UnusableState if the file cannot be trusted or belongs to another configuration."""
        found = checkpoint.load(self._path, STATIC)
        if found is not None and found.shared | _all_of(found.assigned):
            if why := contradiction(found, self.topology.all, self.reserved):
                raise checkpoint.unusable(self._path, why)
            self._assigned = {uid: dict(cpus) for uid, cpus in found.assigned.items()}
        else:
            checkpoint.save(self._path, self.state(), self._durable)
        self._metrics.started(self.topology, self.reserved, _all_of(self._assigned))

    async def flush(self) -> None:
        """Returns once all changes so far are on disk. Raises OSError if they cannot be written."""
        if not self._unsaved and not self._writing.locked():
            return
        async with self._writing:
            if not self._unsaved:
                return
            self._being_saved, self._unsaved = self._unsaved, set()
            try:
                if self._durable:
                    await asyncio.to_thread(checkpoint.save, self._path, self.state())
                else:
                    checkpoint.save(self._path, self.state(), durable=False)
            except BaseException:
                self._unsaved |= self._being_saved
                raise
            finally:
                self._being_saved = set()


def _all_of(pods: Mapping[str, Assignment]) -> Cpus:
    return NO_CPUS.union(*(cpus for containers in pods.values() for cpus in containers.values()))
