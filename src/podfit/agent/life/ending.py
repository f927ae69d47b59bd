"""Ends containers and pods: preStop, SIGTERM, SIGKILL after the grace, sidecars last. No pass waits for any of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from podfit.agent.decide.states import Object, every_container
from podfit.agent.life.hooks import Hooks, tell_failure
from podfit.agent.notices import NORMAL, Notices
from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import Runtime, RuntimeFailure
from podfit.api.resources import is_sidecar
from podfit.kit.clock import Clock
from podfit.kit.oserrors import system_words
from podfit.kit.tasks import Tasks

log = logging.getLogger(__name__)

LEAST_GRACE_S = 2.0
"""Everybody gets the chance to hear SIGTERM, also with a grace period of zero."""
_AGAIN_S = 1.0


class Stopper:
    def __init__(
        self,
        runtime: Runtime,
        notices: Notices,
        hooks: Hooks,
        clock: Clock,
        tasks: Tasks,
        kick: Callable[[str], None],
    ) -> None:
        self._runtime, self._notices, self._hooks = runtime, notices, hooks
        self._clock, self._tasks, self._kick = clock, tasks, kick

    def stop(self, record: PodRecord, snapshot: Snapshot, name: str, grace_s: float, message: str) -> None:
        container = next(one for one in every_container(record.pod["spec"]) if one["name"] == name)
        self.stop_one(record, container, snapshot.running[name].id, grace_s, message)

    def stop_one(self, record: PodRecord, container: Object, container_id: str, grace_s: float, message: str) -> None:
        """Begins to stop a running container; one that is being stopped already is left to that."""
        name = container["name"]
        job = f"stop:{name}"
        if record.job(job):
            return
        if not record.left:
            self._notices.say(record.pod, NORMAL, "Killing", message, name)
        record.story.tell("stopping", message, grace_s=grace_s)
        record.jobs[job] = self._tasks.start(self._stop(record, container, container_id, grace_s), job)

    async def _stop(self, record: PodRecord, container: Object, container_id: str, grace_s: float) -> None:
        name = container["name"]
        began = self._clock.monotonic()
        hook = (container.get("lifecycle") or {}).get("preStop")
        if hook and grace_s > 0:
            error = await self._hooks.run(record, container, hook, container_id, timeout_s=grace_s)
            if error:
                tell_failure(self._notices, record, "FailedPreStopHook", name, error)
        left = max(grace_s - (self._clock.monotonic() - began), LEAST_GRACE_S)
        try:
            await self._runtime.stop_container(container_id, left)
        except (RuntimeFailure, OSError) as error:
            log.warning("stopping %s of %s: %s", name, record.name, error)
            record.story.tell("not stopped", system_words(error), container=name)
            # The next look begins it again; at once would be a loop without a pause.
            await self._clock.sleep(_AGAIN_S)
        finally:
            # Whoever hurried us on has put another in our place already.
            if record.jobs.get(job := f"stop:{name}") is asyncio.current_task():
                del record.jobs[job]
        self._kick(record.uid)

    def hurry(self, record: PodRecord) -> None:
        """A shorter grace came: what waits for the longer one starts again with the new."""
        for job, task in list(record.jobs.items()):
            if job.startswith("stop:"):
                task.cancel()
                record.jobs.pop(job, None)

    def stop_all(self, record: PodRecord, snapshot: Snapshot, grace_s: float) -> bool:
        """Regular containers first, then sidecars in reverse order. True when nothing runs any more."""
        running = snapshot.running
        if not running:
            return True
        inits = record.pod["spec"].get("initContainers") or []
        sidecars = [one["name"] for one in reversed(inits) if is_sidecar(one) and one["name"] in running]
        others = [name for name in running if name not in sidecars]
        for name in others or sidecars[:1]:
            self.stop(record, snapshot, name, grace_s, f"Stopping container {name}")
        return False
