"""Virtual machines follow the power state that their pods ask for. No pass waits for a guest that shuts down."""

from __future__ import annotations

from collections.abc import Callable

from podfit.agent.notices import NORMAL, WARNING, Notices
from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import ContainerState, Runtime, RuntimeFailure
from podfit.api.machines import wanted_power
from podfit.kit.clock import Clock
from podfit.kit.tasks import Tasks

_AGAIN_S = 5.0


class Powers:
    def __init__(
        self, runtime: Runtime, notices: Notices, clock: Clock, tasks: Tasks, kick: Callable[[str], None]
    ) -> None:
        self._runtime, self._notices, self._clock, self._tasks, self._kick = runtime, notices, clock, tasks, kick

    def follow(self, record: PodRecord, snapshot: Snapshot) -> None:
        """Begins to change what differs; a change that is under way is left to end."""
        for name, container in snapshot.running.items():
            machine, job = container.machine, f"power:{name}"
            if machine is None or record.job(job) or record.job(f"stop:{name}"):
                continue
            wanted = wanted_power(record.pod)
            if machine.power != wanted:
                record.jobs[job] = self._tasks.start(self._change(record, container, wanted), job)

    async def _change(self, record: PodRecord, container: ContainerState, wanted: str) -> None:
        name = container.name
        try:
            await self._runtime.set_power(container.id, wanted, record.grace_s)
            self._notices.say(record.pod, NORMAL, "PowerChanged", f"Virtual machine is {wanted}", name)
            record.story.tell("power", wanted, container=name)
        except RuntimeFailure as error:
            self._notices.say(record.pod, WARNING, "FailedPowerChange", f"Cannot change to {wanted}: {error}", name)
            record.story.tell("power not changed", str(error), container=name)
            await self._clock.sleep(_AGAIN_S)
        finally:
            record.jobs.pop(f"power:{name}", None)
        self._kick(record.uid)
