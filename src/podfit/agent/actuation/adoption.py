"""Adopts pods that kept running while no agent did: compares the ledger with the kernel, and restores lost entries.

A lost allocation is restored from `status…allocatedResources` (requests) and the kernel (limits). An actuated size in
the ledger is trusted only where the kernel agrees, because the agent may have been killed between a step and its
record.
"""

from __future__ import annotations

import logging

from podfit.agent.actuation.actuator import Actuator
from podfit.agent.actuation.restarts import Restarts
from podfit.agent.allocation.allocations import Allocations
from podfit.agent.decide.pod import restored
from podfit.agent.decide.resize import kernel
from podfit.agent.pods.ledger import Ledger
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RUNNING, Limits, NotFound, PodState
from podfit.api.objects import Object
from podfit.api.resize.states import effective

log = logging.getLogger(__name__)


class Adoption:
    def __init__(
        self, runtime: Runtime, ledger: Ledger, allocations: Allocations, actuator: Actuator, restarts: Restarts
    ) -> None:
        self._runtime, self._ledger, self._allocations = runtime, ledger, allocations
        self._actuator, self._restarts = actuator, restarts

    async def adopt(self, pod: Object, state: PodState) -> None:
        uid = pod["metadata"]["uid"]
        self._restarts.recall(uid, state)
        actual = await self._actual(state)
        if self._ledger.allocated(uid) is None:
            log.warning("pod %s runs without an allocation: restored from its status", pod["metadata"]["name"])
            self._allocations.restore(uid, restored.allocation(pod, actual))
        allocated = self._ledger.allocated(uid)
        assert allocated is not None
        actuated = self._ledger.actuated(uid)
        for name, limits in actual.items():
            believed = actuated.containers.get(name)
            wanted = effective(allocated.containers.get(name), allocated.pod)
            if believed is not None and kernel.agrees(believed, limits):
                continue
            # Memory requests leave no trace in the kernel: they count as actuated, unless limits prove otherwise.
            size = wanted if kernel.agrees(wanted, limits) else restored.actuated(wanted, believed, limits)
            self._actuator.found_container(uid, name, size)
        if actuated.pod is None and allocated.pod is not None and not actuated.containers:
            self._actuator.found_pod(uid, allocated.pod)

    async def _actual(self, state: PodState) -> dict[str, Limits]:
        found: dict[str, Limits] = {}
        for container in state.containers:
            if container.state == RUNNING:
                try:
                    found[container.name] = await self._runtime.container_limits(container.id)
                except NotFound:
                    continue
        return found
