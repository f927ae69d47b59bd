"""Starts containers: image, configuration, creation, start, postStart hook."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from podfit.agent.actuation.actuator import Actuator
from podfit.agent.actuation.restarts import Restarts
from podfit.agent.backoff import StartBackoff
from podfit.agent.containers.post_start import HOOK, PostStart
from podfit.agent.containers.sandboxes import SandboxStarter
from podfit.agent.containers.stopper import STOP
from podfit.agent.core import Core
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide.resize import kernel
from podfit.agent.furnish.containers import ConfigProblem, VolumeProblem
from podfit.agent.images.pulls import ImagePulls
from podfit.agent.pods.events import NORMAL, WARNING
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import CREATED, CannotRun, RuntimeFailure
from podfit.api.objects import Object
from podfit.api.resize.states import effective, every_container
from podfit.kit.process.oserrors import system_words


class Starter:
    def __init__(
        self,
        core: Core,
        sandboxes: SandboxStarter,
        images: ImagePulls,
        cpus: CpuPolicy,
        actuator: Actuator,
        restarts: Restarts,
        backoff: StartBackoff,
        post_start: PostStart,
    ) -> None:
        self._core, self._sandboxes, self._images, self._cpus = core, sandboxes, images, cpus
        self._actuator, self._restarts, self._backoff, self._post_start = actuator, restarts, backoff, post_start

    async def start(self, record: PodRecord, snapshot: Snapshot, names: tuple[str, ...]) -> float:
        """Starts the containers in order. Returns the seconds until the next attempt, 0 if none is needed."""
        if record.jobs.any_running(HOOK):
            # Containers start one after the other, each with its hook; the end of the hook triggers the next pass.
            return 0.0
        again = 0.0
        by_name = {container["name"]: container for container in every_container(record.pod["spec"])}
        for name in names:
            if record.jobs.running(f"{STOP}{name}"):
                continue
            wait = await self._start(record, snapshot, by_name[name])
            if wait is None:
                break
            if wait:
                again = min(again, wait) if again else wait
        self._core.ledger.flush_soon()
        return again

    async def _start(self, record: PodRecord, snapshot: Snapshot, container: Object) -> float | None:
        """Returns 0 if the container runs, the seconds until the next attempt, or None if the containers after it have
        to wait for it."""
        name = container["name"]
        if (held := self._backoff.held_s(record, name)) > 0:
            return held
        image = await self._images.get(record, container)
        if image is None:
            return 0.0  # the end of the pull triggers the next pass
        if not await self._images.has_mounted(record, container):
            return 0.0
        try:
            await self._run(record, snapshot, container, image)
        except VolumeProblem as problem:
            record.waiting.clear(name)
            return self._sandboxes.not_mounted(record, name, problem)
        except (RuntimeFailure, ConfigProblem, OSError) as problem:
            return self._failed(record, name, problem)
        finally:
            self._images.used(record, container)
        self._backoff.started(record, name)
        record.waiting.clear(name)
        self._restarts.done(record, name)
        return None if _has_hook(container) else 0.0

    def _failed(self, record: PodRecord, name: str, problem: Exception) -> float:
        reason = problem.reason if isinstance(problem, (CannotRun, ConfigProblem)) else "CreateContainerError"
        message = system_words(problem)
        record.waiting.set(name, reason, message)
        self._core.events.emit(record.pod, WARNING, "Failed", f"Error: {message}", name)
        record.story.add("not started", message, container=name)
        return self._backoff.hold(record, name)

    async def _run(self, record: PodRecord, snapshot: Snapshot, container: Object, image: str) -> None:
        name, runtime = container["name"], self._core.runtime
        last = snapshot.seen[name].last
        wanted = effective(snapshot.allocated.containers.get(name), snapshot.allocated.pod)
        if last is not None and last.state == CREATED:
            # This container was created before a restart of the agent and never started; its size may be outdated.
            await runtime.remove_container(last.id)
        attempt = _attempt(record, snapshot, name)
        limits = kernel.container_limits(wanted)
        config = await self._sandboxes.maker.container_config(record, container, attempt, limits)

        async def create(cpus: str) -> str:
            limits = structs.replace(config.limits, cpuset_cpus=cpus)
            return await runtime.create_container(record.uid, replace(config, image_id=image, limits=limits))

        container_id = await self._cpus.create(record.uid, name, create)
        self._actuator.container_created(record, name, wanted)
        self._core.events.emit(record.pod, NORMAL, "Created", "Container created", name)
        if (made := await runtime.container(container_id)) is not None and made.warning:
            self._core.events.emit(record.pod, WARNING, "HostFiles", made.warning, name)
        await runtime.start_container(container_id)
        self._core.events.emit(record.pod, NORMAL, "Started", "Container started", name)
        record.story.add("started", name, attempt=attempt, size=wanted)
        await self._remove_old(snapshot, name)
        if _has_hook(container):
            self._post_start.begin(record, container, container_id)

    async def _remove_old(self, snapshot: Snapshot, name: str) -> None:
        """Keeps the previous container, for its logs and last state, and removes older ones."""
        state = snapshot.state
        if state is None:
            return
        old = [container for container in state.containers if container.name == name]
        for container in old[:-1]:
            await self._core.runtime.remove_container(container.id)


def _has_hook(container: Object) -> bool:
    return bool((container.get("lifecycle") or {}).get("postStart"))


def _attempt(record: PodRecord, snapshot: Snapshot, name: str) -> int:
    last = snapshot.seen[name].last
    if last is not None:
        return last.attempt if last.state == CREATED else last.attempt + 1
    status = record.api_object.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    known = next((reported for reported in listed if reported["name"] == name), None)
    return int(known["restartCount"]) + 1 if known is not None and known.get("containerID") else 0
