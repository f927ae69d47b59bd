"""Runs postStart hooks outside the passes. A container whose hook fails is stopped, and restarted by its policy."""

from __future__ import annotations

from podfit.agent.containers.hooks import Hooks, report_failure
from podfit.agent.containers.stopper import STOP, Stopper
from podfit.agent.core import Core
from podfit.agent.pods.record import PodRecord
from podfit.api.objects import Object

HOOK = "hook:"
"""The name prefix of jobs that run a postStart hook."""
_FAILED_S = 1.0
"""The time for which a container is reported as terminated by its failed hook before it is restarted or reported as
waiting."""


class PostStart:
    def __init__(self, core: Core, hooks: Hooks, stopper: Stopper) -> None:
        self._core, self._hooks, self._stopper = core, hooks, stopper

    def begin(self, record: PodRecord, container: Object, container_id: str) -> None:
        record.jobs.start(f"{HOOK}{container['name']}", self._run(record, container, container_id), self._core.tasks)

    async def _run(self, record: PodRecord, container: Object, container_id: str) -> None:
        name = container["name"]
        error = await self._hooks.run(record, container, container["lifecycle"]["postStart"], container_id)
        if error:
            report_failure(self._core.events, record, "FailedPostStartHook", name, error)
            record.waiting.set(name, "PostStartHookError", error)
            self._stopper.stop_container(record, container, container_id, record.grace_s, "FailedPostStartHook")
            await record.jobs.wait(f"{STOP}{name}")
            self._core.queue.enqueue(record.uid)
            await self._core.clock.sleep(_FAILED_S)
        self._core.queue.enqueue(record.uid)
