"""Creates a pod's volumes and its sandbox: the cgroup with the allocated limits, and the namespaces."""

from __future__ import annotations

from dataclasses import replace

from podfit.agent.actuation.actuator import Actuator
from podfit.agent.backoff import StartBackoff
from podfit.agent.core import Core
from podfit.agent.decide.resize import kernel
from podfit.agent.furnish.containers import ContainerMaker, VolumeProblem
from podfit.agent.furnish.machines import Machines
from podfit.agent.furnish.runtimeclasses import RuntimeClasses
from podfit.agent.pods.events import NORMAL, WARNING
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.kit.process.oserrors import system_words

_VOLUMES = ""
"""The key of the backoff for the pod itself: nothing of a pod is created before its volumes are."""
_NO_USERS = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"


class SandboxStarter:
    def __init__(
        self,
        core: Core,
        maker: ContainerMaker,
        classes: RuntimeClasses,
        machines: Machines,
        actuator: Actuator,
        backoff: StartBackoff,
    ) -> None:
        self._core, self.maker, self._classes, self._machines = core, maker, classes, machines
        self._actuator, self._backoff = actuator, backoff

    async def mount(self, record: PodRecord) -> float:
        """Creates the pod's volumes. Returns the seconds until the next attempt, 0 if all exist."""
        if (held := self._backoff.held_s(record, _VOLUMES)) > 0:
            return held
        try:
            await self.maker.mount(record)
        except VolumeProblem as problem:
            return self.not_mounted(record, _VOLUMES, problem)
        self._backoff.started(record, _VOLUMES)
        return 0.0

    def not_mounted(self, record: PodRecord, name: str, problem: VolumeProblem) -> float:
        for message in problem.messages:
            self._core.events.emit(record.pod, WARNING, "FailedMount", message)
            record.story.add("not mounted", message)
        return self._backoff.hold(record, name)

    async def create(self, record: PodRecord, snapshot: Snapshot) -> None:
        """Creates the sandbox, unless the pod has one that is alive."""
        if snapshot.sandbox:
            return
        if snapshot.state is not None:
            # Its namespaces are gone: the sandbox cannot be used again.
            record.story.add("sandbox lost", "recreated")
            self._core.events.emit(
                record.pod, NORMAL, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created."
            )
            await self._core.runtime.stop_pod(record.uid)
        limits = kernel.pod_cgroup(record.sized(snapshot.allocated), record.qos)
        try:
            if record.pod["spec"].get("hostUsers") is False:
                raise RuntimeFailure(_NO_USERS)
            await self._classes.resolve(record)
            config = self.maker.pod_config(record, limits)
            config = replace(config, annotations={**config.annotations, **await self._machines.annotations(record.pod)})
            await self._core.runtime.run_pod(config)
        except (RuntimeFailure, OSError) as error:
            message = f"Failed to create pod sandbox: {system_words(error)}"
            self._core.events.emit(record.pod, WARNING, "FailedCreatePodSandBox", message)
            raise
        self._actuator.sandbox_created(record, snapshot.allocated.pod)
