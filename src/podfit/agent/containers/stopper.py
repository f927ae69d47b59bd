"""Stops containers: preStop hook, SIGTERM, SIGKILL after the grace period, sidecars last. Passes do not wait for it."""

from __future__ import annotations

import logging

from podfit.agent.containers.hooks import Hooks, report_failure
from podfit.agent.core import Core
from podfit.agent.pods.events import NORMAL
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.objects import Object
from podfit.api.pods.resources import is_sidecar
from podfit.api.resize.states import every_container
from podfit.kit.process.oserrors import system_words

log = logging.getLogger(__name__)

LEAST_GRACE_S = 2.0
"""A container gets this long to handle SIGTERM, even with a grace period of zero."""
_RETRY_S = 1.0
STOP = "stop:"
"""The name prefix of jobs that stop a container."""


class Stopper:
    def __init__(self, core: Core, hooks: Hooks) -> None:
        self._core, self._hooks = core, hooks

    def stop(self, record: PodRecord, snapshot: Snapshot, name: str, grace_s: float, message: str) -> None:
        container = next(spec for spec in every_container(record.pod["spec"]) if spec["name"] == name)
        self.stop_container(record, container, snapshot.running[name].id, grace_s, message)

    def stop_container(
        self, record: PodRecord, container: Object, container_id: str, grace_s: float, message: str
    ) -> None:
        """Begins to stop a running container; does nothing if that is in progress."""
        name = container["name"]
        job = f"{STOP}{name}"
        if record.jobs.running(job):
            return
        if not record.left:
            self._core.events.emit(record.pod, NORMAL, "Killing", message, name)
        record.story.add("stopping", message, grace_s=grace_s)
        record.jobs.start(job, self._stop(record, container, container_id, grace_s), self._core.tasks)

    async def _stop(self, record: PodRecord, container: Object, container_id: str, grace_s: float) -> None:
        name = container["name"]
        began = self._core.clock.monotonic()
        hook = (container.get("lifecycle") or {}).get("preStop")
        if hook and grace_s > 0:
            error = await self._hooks.run(record, container, hook, container_id, timeout_s=grace_s)
            if error:
                report_failure(self._core.events, record, "FailedPreStopHook", name, error)
        left = max(grace_s - (self._core.clock.monotonic() - began), LEAST_GRACE_S)
        try:
            await self._core.runtime.stop_container(container_id, left)
        except (RuntimeFailure, OSError) as error:
            log.warning("stopping %s of %s: %s", name, record.name, error)
            record.story.add("not stopped", system_words(error), container=name)
            # The next pass tries again; an immediate retry would loop without a delay.
            await self._core.clock.sleep(_RETRY_S)
        self._core.queue.enqueue(record.uid)

    def shorten(self, record: PodRecord) -> None:
        """Applies a shortened grace period: stops with the longer one are cancelled and restarted."""
        record.jobs.cancel(STOP)

    def stop_all(self, record: PodRecord, snapshot: Snapshot, grace_s: float) -> bool:
        """Stops regular containers first, then sidecars in reverse order. True when all have exited."""
        running = snapshot.running
        if not running:
            return True
        inits = record.pod["spec"].get("initContainers") or []
        sidecars = [spec["name"] for spec in reversed(inits) if is_sidecar(spec) and spec["name"] in running]
        others = [name for name in running if name not in sidecars]
        for name in others or sidecars[:1]:
            self.stop(record, snapshot, name, grace_s, f"Stopping container {name}")
        return False
