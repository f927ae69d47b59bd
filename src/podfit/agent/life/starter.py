"""Makes pods and containers run: sandbox, image, configuration, creation, start, postStart. Notes what was actuated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from msgspec import structs

from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide import kernel
from podfit.agent.decide.states import Object, effective, every_container
from podfit.agent.furnish.containers import ConfigProblem, ContainerMaker, VolumeProblem
from podfit.agent.furnish.machines import Machines
from podfit.agent.furnish.runtimeclasses import RuntimeClasses
from podfit.agent.ledger import Ledger
from podfit.agent.life.ending import Stopper
from podfit.agent.life.hooks import Hooks, tell_failure
from podfit.agent.life.images import ImagePulls
from podfit.agent.notices import NORMAL, WARNING, Notices
from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.restarts import Restarts
from podfit.agent.runtimes.base import CREATED, CannotRun, Runtime, RuntimeFailure
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock
from podfit.kit.oserrors import system_words
from podfit.kit.tasks import Tasks

_TROUBLE_S = 15.0
"""What a container lacks may come at any moment: it is tried again as often as a kubelet tries, not less and less."""
_VOLUMES = ""
"""Held back together under no container's name: nothing of a pod is made before its volumes are."""
_NO_USERS = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
_HOOK = "hook:"
_HOOK_FAILED_S = 1.0
"""How long a container is shown as ended by its failed hook before it is started again, or shown as pausing."""


class Starter:
    def __init__(
        self,
        runtime: Runtime,
        ledger: Ledger,
        notices: Notices,
        maker: ContainerMaker,
        images: ImagePulls,
        classes: RuntimeClasses,
        machines: Machines,
        hooks: Hooks,
        stopper: Stopper,
        restarts: Restarts,
        cpus: CpuPolicy,
        clock: Clock,
        tasks: Tasks,
        kick: Callable[[str], None],
    ) -> None:
        self._runtime, self._ledger, self._notices, self._maker = runtime, ledger, notices, maker
        self._classes, self._machines = classes, machines
        self._images, self._hooks, self._stopper, self._restarts, self._cpus = images, hooks, stopper, restarts, cpus
        self._clock, self._tasks, self._kick = clock, tasks, kick
        self._trouble = Backoff(1.0, _TROUBLE_S)

    async def mount(self, record: PodRecord) -> float:
        """Makes the pod's volumes. Returns seconds after which to try again, 0 when all are there."""
        if (left := record.held.get(_VOLUMES, 0.0) - self._clock.monotonic()) > 0:
            return left
        try:
            await self._maker.mount(record)
        except VolumeProblem as problem:
            return self._not_mounted(record, _VOLUMES, problem)
        self._trouble.forget((record.uid, _VOLUMES))
        return 0.0

    def _not_mounted(self, record: PodRecord, name: str, problem: VolumeProblem) -> float:
        for why in problem.told:
            self._notices.say(record.pod, WARNING, "FailedMount", why)
            record.story.tell("not mounted", why)
        return self._hold(record, name)

    async def sandbox(self, record: PodRecord, snapshot: Snapshot) -> None:
        """The pod's cgroup and namespaces, with the limits promised."""
        if snapshot.sandbox:
            return
        if snapshot.state is not None:
            # Its namespaces died under it: what is left cannot be used again.
            record.story.tell("sandbox lost", "recreated")
            self._notices.say(
                record.pod, NORMAL, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created."
            )
            await self._runtime.stop_pod(record.uid)
        limits = kernel.pod_cgroup(record.sized(snapshot.allocated), record.qos)
        try:
            if record.pod["spec"].get("hostUsers") is False:
                raise RuntimeFailure(_NO_USERS)
            record.handler = await self._classes.handler(record.pod)
            config = self._maker.pod_config(record, limits)
            config = replace(config, annotations={**config.annotations, **await self._machines.annotations(record.pod)})
            await self._runtime.run_pod(config)
        except (RuntimeFailure, OSError) as error:
            self._notices.say(
                record.pod, WARNING, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {system_words(error)}"
            )
            raise
        self._ledger.actuate_pod(record.uid, snapshot.allocated.pod)

    async def start(self, record: PodRecord, snapshot: Snapshot, names: tuple[str, ...]) -> float:
        """Starts them in order. Returns seconds after which to try again, 0 when nothing is left over."""
        if any(job.startswith(_HOOK) and not task.done() for job, task in record.jobs.items()):
            # Its end brings the next look: one container after the other, each with its hook.
            return 0.0
        again = 0.0
        by_name = {container["name"]: container for container in every_container(record.pod["spec"])}
        for name in names:
            if record.job(f"stop:{name}"):
                continue
            wait = await self._one(record, snapshot, by_name[name])
            if wait is None:
                break
            if wait:
                again = min(again, wait) if again else wait
        self._ledger.flush_soon()
        return again

    async def _one(self, record: PodRecord, snapshot: Snapshot, container: Object) -> float | None:
        """0: it runs; a number: try again then; None: later ones have to wait for it."""
        name = container["name"]
        key = (record.uid, name)
        if (left := record.held.get(name, 0.0) - self._clock.monotonic()) > 0:
            return left
        image = await self._images.get(record, container)
        if image is None:
            return 0.0  # the end of the pull brings the next pass
        record.images.pop((name, container["image"]), None)
        try:
            await self._run(record, snapshot, container, image)
        except VolumeProblem as problem:
            record.waiting.pop(name, None)
            return self._not_mounted(record, name, problem)
        except (RuntimeFailure, ConfigProblem, OSError) as problem:
            reason = problem.reason if isinstance(problem, (CannotRun, ConfigProblem)) else "CreateContainerError"
            why = system_words(problem)
            record.waiting[name] = (reason, why)
            self._notices.say(record.pod, WARNING, "Failed", f"Error: {why}", name)
            record.story.tell("not started", why, container=name)
            return self._hold(record, name)
        self._trouble.forget(key)
        record.waiting.pop(name, None)
        self._restarts.done(record, name)
        if (container.get("lifecycle") or {}).get("postStart"):
            return None
        return 0.0

    def _hold(self, record: PodRecord, name: str) -> float:
        """Whatever else brings the next look: this container is not tried before."""
        pause = self._trouble.next((record.uid, name))
        record.held[name] = self._clock.monotonic() + pause
        return pause

    async def _run(self, record: PodRecord, snapshot: Snapshot, container: Object, image: str) -> None:
        name = container["name"]
        last = snapshot.seen[name].last
        wanted = effective(snapshot.allocated.containers.get(name), snapshot.allocated.pod)
        if last is not None and last.state == CREATED:
            # Made before an agent's restart and never started; its size may be old.
            await self._runtime.remove_container(last.id)
        attempt = self._attempt(record, snapshot, name)
        config = await self._maker.container_config(record, container, attempt, kernel.container_limits(wanted))

        async def create(cpus: str) -> str:
            limits = structs.replace(config.limits, cpuset_cpus=cpus)
            return await self._runtime.create_container(record.uid, replace(config, image_id=image, limits=limits))

        container_id = await self._cpus.create(record.uid, name, create)
        self._ledger.actuate(record.uid, name, wanted)
        self._notices.say(record.pod, NORMAL, "Created", "Container created", name)
        if (made := await self._runtime.container(container_id)) is not None and made.warning:
            self._notices.say(record.pod, WARNING, "HostFiles", made.warning, name)
        await self._runtime.start_container(container_id)
        self._notices.say(record.pod, NORMAL, "Started", "Container started", name)
        record.story.tell("started", name, attempt=attempt, size=wanted)
        await self._remove_old(snapshot, name)
        if (container.get("lifecycle") or {}).get("postStart"):
            self._post_start(record, container, container_id)

    @staticmethod
    def _attempt(record: PodRecord, snapshot: Snapshot, name: str) -> int:
        last = snapshot.seen[name].last
        if last is not None:
            return last.attempt if last.state == CREATED else last.attempt + 1
        status = record.shown.get("status") or {}
        listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        known = next((one for one in listed if one["name"] == name), None)
        return int(known["restartCount"]) + 1 if known is not None and known.get("containerID") else 0

    async def _remove_old(self, snapshot: Snapshot, name: str) -> None:
        """Keeps the container before this one, for its logs and last state; older ones go."""
        state = snapshot.state
        if state is None:
            return
        old = [one for one in state.containers if one.name == name]
        for one in old[:-1]:
            await self._runtime.remove_container(one.id)

    # --- hooks
    def _post_start(self, record: PodRecord, container: Object, container_id: str) -> None:
        job = f"{_HOOK}{container['name']}"
        record.jobs[job] = self._tasks.start(self._hook(record, container, container_id), job)

    async def _hook(self, record: PodRecord, container: Object, container_id: str) -> None:
        name = container["name"]
        error = await self._hooks.run(record, container, container["lifecycle"]["postStart"], container_id)
        if error:
            tell_failure(self._notices, record, "FailedPostStartHook", name, error)
            record.waiting[name] = ("PostStartHookError", error)
            self._stopper.stop_one(record, container, container_id, record.grace_s, "FailedPostStartHook")
            await asyncio.wait({record.jobs[f"stop:{name}"]})
            self._kick(record.uid)
            await self._clock.sleep(_HOOK_FAILED_S)
        record.jobs.pop(f"{_HOOK}{name}", None)
        self._kick(record.uid)
