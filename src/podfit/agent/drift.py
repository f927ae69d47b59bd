"""Looks at every pod once a minute, and reports cgroups that somebody else has written to.

What the kernel has is reported and not acted on (KEP 1287, Actuating Resizes): the status shows it, an Event says that
it is not what was set. The next resize of the container, or the next start of the agent, applies the allocated size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from podfit.agent.decide import kernel
from podfit.agent.ledger import Ledger
from podfit.agent.notices import WARNING, Notices
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import RUNNING, Limits, Runtime, RuntimeFailure
from podfit.kit.clock import Clock

EVERY_S = 60.0


class Drift:
    def __init__(
        self,
        records: Mapping[str, PodRecord],
        ledger: Ledger,
        runtime: Runtime,
        notices: Notices,
        clock: Clock,
        kick: Callable[[str], None],
    ) -> None:
        self._records, self._ledger, self._runtime = records, ledger, runtime
        self._notices, self._clock, self._kick = notices, clock, kick
        self._known: dict[str, Limits] = {}
        """By container id: the values that were reported last."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        running: set[str] = set()
        for record in list(self._records.values()):
            state = record.state
            if state is None or not record.admitted or record.terminal:
                continue
            for container in state.containers:
                if container.state == RUNNING:
                    running.add(container.id)
                    await self._compare(record, container.name, container.id)
            self._kick(record.uid)
        for gone in self._known.keys() - running:
            del self._known[gone]

    async def _compare(self, record: PodRecord, name: str, container_id: str) -> None:
        try:
            actual = await self._runtime.container_limits(container_id)
        except (RuntimeFailure, OSError):
            return
        # Read after the kernel's values, with nothing in between: both are of the same moment.
        actuated = self._ledger.actuated(record.uid).containers.get(name)
        if actuated is None or kernel.agrees(actuated, actual):
            self._known.pop(container_id, None)
        elif self._known.get(container_id) != actual and record.resize.in_progress is None:
            self._known[container_id] = actual
            set_before = _words(kernel.container_limits(actuated))
            message = f"Container {name}: the cgroup has {_words(actual)}; {set_before} were set"
            record.story.tell("changed outside", message)
            self._notices.say(record.pod, WARNING, "CgroupChanged", message, name)


def _words(limits: Limits) -> str:
    quota, memory = limits.cpu_quota_us, limits.memory_bytes
    cpu = "none" if quota is None else kernel.cpu_text(kernel.milli_of_quota(quota, limits.cpu_period_us))
    return (
        f"cpu request {kernel.cpu_text(kernel.milli_of_shares(limits.cpu_shares or 0))}, cpu limit {cpu}, "
        f"memory limit {'none' if memory is None else kernel.memory_text(memory)}"
    )
