"""Makes pods and containers run: sandbox, image, configuration, creation, start, postStart. Notes what was actuated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from podfit.agent.decide import kernel
from podfit.agent.decide.states import Object, effective, every_container
from podfit.agent.furnish.containers import ConfigProblem, ContainerMaker, VolumeProblem
from podfit.agent.ledger import Ledger
from podfit.agent.life.ending import Stopper
from podfit.agent.life.hooks import Hooks, tell_failure
from podfit.agent.notices import NORMAL, WARNING, Notices
from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.restarts import Restarts
from podfit.agent.runtimes.base import CREATED, CannotRun, ImageMissing, Runtime, RuntimeFailure
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock
from podfit.kit.oserrors import system_words
from podfit.kit.tasks import Tasks

_PATIENCE_S = 0.05
"""An image that is here already is found within this; a pull goes on by itself."""
_PULL_FAILED_S = 1.0
"""How long a failed pull is shown as that before it is shown as a pause."""
_TROUBLE_S = 15.0
"""What a container lacks may come at any moment: it is tried again as often as a kubelet tries, not less and less."""
_VOLUMES = ""
"""Held back together under no container's name: nothing of a pod is made before its volumes are."""
_NO_USERS = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
_HOOK = "hook:"
_HOOK_FAILED_S = 1.0
"""How long a container is shown as ended by its failed hook before it is started again, or shown as pausing."""
_IMAGE_EVENTS = {"ErrImageNeverPull": "ErrImageNeverPull", "InvalidImageName": "InspectFailed"}


class Starter:
    def __init__(
        self,
        runtime: Runtime,
        ledger: Ledger,
        notices: Notices,
        maker: ContainerMaker,
        hooks: Hooks,
        stopper: Stopper,
        restarts: Restarts,
        clock: Clock,
        tasks: Tasks,
        kick: Callable[[str], None],
    ) -> None:
        self._runtime, self._ledger, self._notices, self._maker = runtime, ledger, notices, maker
        self._hooks, self._stopper, self._restarts = hooks, stopper, restarts
        self._clock, self._tasks, self._kick = clock, tasks, kick
        self._trouble = Backoff(1.0, _TROUBLE_S)
        self._pulls = Backoff(10.0, 300.0)

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
            await self._runtime.run_pod(self._maker.pod_config(record, limits))
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
        image = await self._image(record, container)
        if image is None:
            return 0.0 if record.job(f"image:{container['image']}") else self._pulls.initial_s
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
        record.images.pop(container["image"], None)
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
        container_id = await self._runtime.create_container(record.uid, config)
        self._ledger.actuate(record.uid, name, wanted)
        self._notices.say(record.pod, NORMAL, "Created", "Container created", name)
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

    # --- images
    async def _image(self, record: PodRecord, container: Object) -> str | None:
        """The image's id; None while it is fetched or cannot be had."""
        image, job = container["image"], f"image:{container['image']}"
        if image in record.images:
            return record.images[image]
        if not record.job(job):
            policy = container.get("imagePullPolicy") or "IfNotPresent"
            record.jobs[job] = self._tasks.start(self._fetch(record, container["name"], image, policy), job)
            await asyncio.wait({record.jobs[job]}, timeout=_PATIENCE_S)
        return record.images.get(image)

    async def _fetch(self, record: PodRecord, name: str, image: str, policy: str) -> None:
        key = (record.uid, image)
        try:
            record.images[image] = await self._runtime.ensure_image(image, policy)
            self._pulls.forget(key)
            message = f'Container image "{image}" already present on machine and can be accessed by the pod'
            self._notices.say(record.pod, NORMAL, "Pulled", message, name)
            record.waiting.pop(name, None)
        except (RuntimeFailure, OSError) as error:
            missing = error if isinstance(error, ImageMissing) else ImageMissing(str(error))
            await self._without_image(record, name, image, missing)
        finally:
            record.jobs.pop(f"image:{image}", None)
        self._kick(record.uid)

    async def _without_image(self, record: PodRecord, name: str, image: str, missing: ImageMissing) -> None:
        """Tells why, then waits for the next try: a pull that failed is shown first as that, then as a pause."""
        pause = self._pulls.next((record.uid, image))
        reason, text = missing.reason, str(missing)
        if reason == "ErrImageNeverPull":
            text = f'Container image "{image}" is not present with pull policy of Never'
        if reason == "ErrImagePull":
            self._notices.say(record.pod, NORMAL, "Pulling", f'Pulling image "{image}"', name)
            self._notices.say(record.pod, WARNING, "Failed", f'Failed to pull image "{image}": {text}', name)
        else:
            self._notices.say(record.pod, WARNING, _IMAGE_EVENTS.get(reason, "Failed"), text, name)
        self._no_image(record, name, reason, text)
        if reason == "ErrImagePull":
            await self._clock.sleep(_PULL_FAILED_S)
            pause -= _PULL_FAILED_S
            self._notices.say(record.pod, NORMAL, "BackOff", f'Back-off pulling image "{image}"', name)
            self._no_image(record, name, "ImagePullBackOff", f'Back-off pulling image "{image}": {reason}: {text}')
        await self._clock.sleep(pause)

    def _no_image(self, record: PodRecord, name: str, reason: str, message: str) -> None:
        record.waiting[name] = (reason, message)
        record.story.tell("not started", message, container=name)
        self._notices.say(record.pod, WARNING, "Failed", f"Error: {reason}", name)
        self._kick(record.uid)

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
