"""Changes limits of pods and containers: in the cgroup first, then in the runtime.

The pod's cgroup is the agent's own. A container's is the runtime's, but the agent writes it too, before it calls the
runtime: the kernel has the new limit within a millisecond and reports a refusal at once, and the runtime (which starts
a program for every update) follows. If the runtime refuses what the kernel accepted, the cgroup is restored. If the
runtime does not answer, it may or may not have made the update: the kernel's values stand, and the call is repeated
until it succeeds.

Containers whose cgroup cannot be read, such as virtual machines, are updated through the runtime only.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from podfit.agent.runtimes.cgroups.files import Vanished
from podfit.agent.runtimes.confirmations import Confirmations
from podfit.agent.runtimes.cri.failures import failure
from podfit.agent.runtimes.cri.messages import amounts
from podfit.agent.runtimes.cri.resize.batch import ResizeBatch
from podfit.agent.runtimes.cri.resize.catchup import CatchUp, put_back
from podfit.agent.runtimes.cri.resize.quotas import write_pod
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.records import Container, Pod
from podfit.agent.runtimes.values import LimitsChange, NotFound
from podfit.cri import CriError
from podfit.cri import api_pb2 as api

log = logging.getLogger(__name__)

UPDATE_S = 10.0
"""The time that a resize waits for the runtime. The kernel has the values by then."""


class Resources:
    def __init__(self, inventory: Inventory, confirmations: Confirmations) -> None:
        self._inventory, self._confirmations = inventory, confirmations
        self._behind = CatchUp(inventory, self._ask, confirmations)
        self._batch = ResizeBatch(inventory, self._ask, self._notify_pod, self._behind, confirmations)
        self._pod_updates = True
        """Whether the runtime serves UpdatePodSandboxResources."""

    async def update_all(self, uid: str, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        return await self._batch.apply(uid, changes)

    async def update_pod(self, uid: str, change: LimitsChange) -> None:
        pod, cgroups = self._inventory.pod(uid), self._inventory.cgroups
        if cgroups is not None:
            try:
                await write_pod(cgroups, pod.group, change)
            except Vanished:
                self._inventory.pod_lost(pod)
                raise
        await self._notify_pod(pod, change)

    async def update_container(self, container_id: str, change: LimitsChange) -> None:
        known = self._inventory.container(container_id)
        async with known.lock:
            undo = self._write(known, change)
            try:
                await self._ask(known, self._behind.with_earlier(container_id, change))
                self._behind.done(container_id)
            except CriError as error:
                if undo is None or not error.unreached:
                    if undo is not None:
                        put_back(self._inventory, known.group, undo)
                    if not known.running:
                        raise NotFound(f"container {container_id} has ended") from error
                    raise failure(error) from error
                self._behind.later(known, change, undo)
            known.pinned = known.pinned or bool(change.cpuset_cpus)

    def _write(self, known: Container, change: LimitsChange) -> LimitsChange | None:
        """Writes the container's cgroup. Returns the change that restores the previous values, None if the cgroup is
        not ours to write."""
        cgroups = self._inventory.cgroups
        if cgroups is None or not known.writable:
            return None
        undo = amounts.undo(change, cgroups.limits(known.group))
        cgroups.write(known.group, change)
        return undo

    # --- the runtime
    async def _ask(self, known: Container, change: LimitsChange) -> None:
        request = api.UpdateContainerResourcesRequest(
            container_id=known.state.id, linux=amounts.update(change, known.kept.limits.cpu_period_us)
        )
        await self._inventory.client.ask("UpdateContainerResources", request, UPDATE_S)

    async def _notify_pod(self, pod: Pod, change: LimitsChange) -> None:
        """Notifies runtimes and plugins that request it; the cgroup is written already."""
        if not self._pod_updates or not pod.alive:
            return
        request = api.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=pod.sandbox_id, resources=amounts.update(change, pod.config.limits.cpu_period_us)
        )
        try:
            await self._inventory.client.ask("UpdatePodSandboxResources", request, UPDATE_S)
        except CriError as error:
            if error.code == "UNIMPLEMENTED":
                self._pod_updates = False
            elif not error.unreached:
                log.warning("pod %s: the runtime did not apply its new resources: %s", pod.config.uid, error.words)
