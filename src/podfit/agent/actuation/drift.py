"""Compares every pod with the kernel once a minute, and reports cgroups that another program has written to.

A difference is reported and not acted on (KEP 1287, Actuating Resizes): the status reports the kernel's values, and an
Event states that they differ from those that were set. The next resize of the container, or the next start of the
agent, applies the allocation.
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.core import Core
from podfit.agent.decide.resize import kernel
from podfit.agent.pods.events import WARNING
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RUNNING, Limits, RuntimeFailure

EVERY_S = 60.0


class Drift:
    def __init__(self, core: Core, records: Mapping[str, PodRecord], runtime: Runtime) -> None:
        """`runtime`: without the wrapper that counts calls, so that these reads do not appear in the metrics."""
        self._records, self._ledger, self._runtime = records, core.ledger, runtime
        self._events, self._clock, self._queue = core.events, core.clock, core.queue
        self._known: dict[str, Limits] = {}
        """The values that were reported last, by container ID."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_S)
            await self.check()

    async def check(self) -> None:
        running: set[str] = set()
        for record in list(self._records.values()):
            state = record.state
            if state is None or not record.admitted or record.terminal:
                continue
            for container in state.containers:
                if container.state == RUNNING:
                    running.add(container.id)
                    await self._compare(record, container.name, container.id)
            self._queue.enqueue(record.uid)
        for ended in self._known.keys() - running:
            del self._known[ended]

    async def _compare(self, record: PodRecord, name: str, container_id: str) -> None:
        try:
            actual = await self._runtime.container_limits(container_id)
        except (RuntimeFailure, OSError):
            return
        # Read right after the kernel's values, without an await in between, so that both describe the same moment.
        actuated = self._ledger.actuated(record.uid).containers.get(name)
        if actuated is None or kernel.agrees(actuated, actual):
            self._known.pop(container_id, None)
        elif self._known.get(container_id) != actual and record.resize.in_progress is None:
            self._known[container_id] = actual
            set_before = _rendered(kernel.container_limits(actuated))
            message = f"Container {name}: the cgroup has {_rendered(actual)}, but {set_before} were set"
            record.story.add("changed outside", message)
            self._events.emit(record.pod, WARNING, "CgroupChanged", message, name)


def _rendered(limits: Limits) -> str:
    quota, memory = limits.cpu_quota_us, limits.memory_bytes
    cpu = "none" if quota is None else kernel.cpu_text(kernel.milli_of_quota(quota, limits.cpu_period_us))
    return (
        f"cpu request {kernel.cpu_text(kernel.milli_of_shares(limits.cpu_shares or 0))}, cpu limit {cpu}, "
        f"memory limit {'none' if memory is None else kernel.memory_text(memory)}"
    )
