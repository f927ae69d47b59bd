"""Applies the power state requested for virtual machines. Passes do not wait for a guest that is shutting down."""

from __future__ import annotations

from podfit.agent.containers.stopper import STOP
from podfit.agent.core import Core
from podfit.agent.pods.events import NORMAL, WARNING
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import ContainerState, RuntimeFailure
from podfit.api.pods.machines import wanted_power

_RETRY_S = 5.0


class Power:
    def __init__(self, core: Core) -> None:
        self._core = core

    def follow(self, record: PodRecord, snapshot: Snapshot) -> None:
        """Starts a power change if the state differs, unless a change is in progress."""
        for name, container in snapshot.running.items():
            machine, job = container.machine, f"power:{name}"
            if machine is None or record.jobs.running(job) or record.jobs.running(f"{STOP}{name}"):
                continue
            wanted = wanted_power(record.pod)
            if machine.power != wanted:
                record.jobs.start(job, self._change(record, container, wanted), self._core.tasks)

    async def _change(self, record: PodRecord, container: ContainerState, wanted: str) -> None:
        name = container.name
        try:
            await self._core.runtime.set_power(container.id, wanted, record.grace_s)
            self._core.events.emit(record.pod, NORMAL, "PowerChanged", f"Virtual machine is {wanted}", name)
            record.story.add("power", wanted, container=name)
        except RuntimeFailure as error:
            self._core.events.emit(
                record.pod, WARNING, "FailedPowerChange", f"Cannot change to {wanted}: {error}", name
            )
            record.story.add("power not changed", str(error), container=name)
            await self._core.clock.sleep(_RETRY_S)
        self._core.queue.enqueue(record.uid)
