"""A runtime in memory, with the protocol and behaviour of the real one: for tests, and nodes by the thousand.

Deterministic under a fake clock. Usage is computed when it is read; time.py has everything that happens by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from podfit.agent.runtimes.base import ByteStream, ExecStream
from podfit.agent.runtimes.confirmations import Confirmations
from podfit.agent.runtimes.execs import exec_sync
from podfit.agent.runtimes.fake.load import Load, as_load, parse_load
from podfit.agent.runtimes.fake.node import (
    DEFAULT_CPU,
    DEFAULT_MEMORY,
    FakeContainer,
    FakeNodeState,
    FakePod,
    cores,
    finish,
)
from podfit.agent.runtimes.fake.program import read_program
from podfit.agent.runtimes.fake.resources import ResourceCalls, has_quota
from podfit.agent.runtimes.fake.streams import FakeConnection, FakeStream
from podfit.agent.runtimes.fake.time import FakeTime
from podfit.agent.runtimes.values import (
    CREATED,
    RUNNING,
    CannotRun,
    ContainerConfig,
    ContainerState,
    Handler,
    ImageMissing,
    ImageState,
    Limits,
    PodConfig,
    PodState,
    RuntimeEvent,
    RuntimeFailure,
    invalid_image,
)
from podfit.images.references import InvalidReference, parse
from podfit.images.registries.credentials import Credentials
from podfit.kit.clock import Clock, RealClock

CPU_ANNOTATION, MEMORY_ANNOTATION = "podfit.dev/fake-cpu", "podfit.dev/fake-memory"
"""On the pod; `podfit.dev/fake-cpu.NAME` applies only to the container of that name."""

Loadable = float | Callable[[float], float] | Load


class FakeRuntime(ResourceCalls):
    name = "fake"
    version = "1"
    handlers: tuple[Handler, ...] = ()
    in_memory = True
    separate = local_profiles = False

    def __init__(
        self, clock: Clock | None = None, state: FakeNodeState | None = None, host_ip: str = "127.0.0.1"
    ) -> None:
        self._clock = clock or RealClock()
        self.state = state or FakeNodeState()
        self._ips = (host_ip,)
        self.confirmations = Confirmations()
        self._time = FakeTime(self._clock, self.state)

    # --- scripting

    def fail_next(self, operation: str, error: BaseException, times: int = 1) -> None:
        """Makes the next calls of that operation raise before they change anything."""
        self.state.failures.setdefault(operation, []).extend([error] * times)

    def set_load(self, uid: str, container: str, cpu: Loadable | None = None, memory: Loadable | None = None) -> None:
        """Sets the load: CPU in cores, memory in bytes, as numbers, functions or curves of the seconds since the
        container's start."""
        old = self.state.loads.get((uid, container), (None, None))
        given = (as_load(cpu) if cpu is not None else old[0], as_load(memory) if memory is not None else old[1])
        self.state.loads[uid, container] = given
        pod, now = self.state.pods.get(uid), self._clock.now()
        for item in pod.containers.values() if pod else ():
            if item.config.name == container:
                self._time.account(item, now)
                item.cpu, item.memory = given[0] or item.cpu, given[1] or item.memory
        self.touch()

    def touch(self) -> None:
        """Processes events that are due now: exits, OOM kills, ends of waits."""
        self._time.settle(list(self.state.containers.values()))

    # --- lifecycle of the runtime

    async def problem(self) -> str:
        return ""

    async def open(self) -> None:
        self._time.open()

    async def close(self) -> None:
        self._time.close()

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        while True:
            yield await self._time.events.get()

    # pods

    async def run_pod(self, config: PodConfig) -> None:
        self._step("run_pod", config.uid, config)
        known = self.state.pods.get(config.uid)
        if known is None or not known.alive:
            kept = known.containers if known is not None else {}
            self.state.pods[config.uid] = FakePod(config, config.limits, self._clock.now(), containers=kept)
        self._after("run_pod", config.uid, config)

    async def stop_pod(self, uid: str) -> None:
        pod = self.state.pods.get(uid)
        if pod is None or not pod.alive:
            return
        self._step("stop_pod", uid, None)
        for container in pod.containers.values():
            if container.state == RUNNING:
                self._time.end(container, self._clock.now(), 137, "Error")
        pod.alive = False
        self._after("stop_pod", uid, None)

    async def purge(self) -> None:
        for uid in list(self.state.pods):
            await self.stop_pod(uid)
            await self.remove_pod(uid)

    async def remove_pod(self, uid: str) -> None:
        pod = self.state.pods.get(uid)
        if pod is None:
            return
        self._step("remove_pod", uid, None)
        await self.stop_pod(uid)
        for cid in list(pod.containers):
            await self.remove_container(cid)
        self.state.pods.pop(uid, None)
        for key in [key for key in self.state.loads if key[0] == uid]:
            del self.state.loads[key]
        self._after("remove_pod", uid, None)

    async def pods(self) -> list[PodState]:
        return [pod.view(self._ips) for pod in self.state.pods.values()]

    async def pod(self, uid: str) -> PodState | None:
        pod = self.state.pods.get(uid)
        return pod.view(self._ips) if pod is not None else None

    # containers

    async def create_container(self, uid: str, config: ContainerConfig) -> str:
        self._step("create_container", uid, config)
        pod = self._pod(uid)
        if not pod.alive:
            raise CannotRun(f"pod {uid} is stopped", "CreateContainerError")
        image_id = config.image_id or await self.pull_image(config.image)
        if has_quota(config.limits) and cores(config.limits) > cores(pod.limits):
            raise CannotRun(
                f"failed to create container: cgroup {uid}: Invalid argument (cpu quota)", "CreateContainerError"
            )
        annotations = {**pod.config.annotations, **config.annotations}
        number = self.state.next_number()
        container = FakeContainer(
            id=hashlib.sha256(f"{uid}/{number}".encode()).hexdigest(),
            pod_uid=uid,
            config=config,
            image_id=image_id,
            created_at=self._clock.now(),
            limits=config.limits,
            program=read_program(config.command + config.args, annotations),
            pid=1000 + number,
        )
        cpu, memory = self.state.loads.get((uid, config.name), (None, None))
        container.cpu = cpu or _annotated(annotations, CPU_ANNOTATION, config.name, DEFAULT_CPU)
        container.memory = memory or _annotated(annotations, MEMORY_ANNOTATION, config.name, DEFAULT_MEMORY)
        self.state.containers[container.id] = pod.containers[container.id] = container
        self._after("create_container", container.id, config)
        return container.id

    async def start_container(self, container_id: str) -> None:
        self._step("start_container", container_id, None)
        container = self._container(container_id)
        if container.state == RUNNING:
            return
        if container.state != CREATED:
            raise CannotRun(f"container {container_id} has ended", "RunContainerError")
        now = self._clock.now()
        if container.config.command[:1] and "/nonexistent" in container.config.command[0]:
            finish(container, now, 128, "StartError", Limits())
            container.message = _no_program(container.config.command[0])
            raise CannotRun(f"failed to start container: {container.message}", "RunContainerError")
        container.state, container.started_at, container.seen_at = RUNNING, now, now
        self._time.events.put_nowait(RuntimeEvent("started", container.pod_uid, container_id))
        self._after("start_container", container_id, None)
        self._time.settle([container])

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        container = self.state.containers.get(container_id)
        if container is None or container.state != RUNNING:
            return
        self._step("stop_container", container_id, grace_s)
        if grace_s > 0 and container.program.on_term is None:
            await self._time.ended_within(container_id, grace_s)
        if container.state == RUNNING:
            heard = grace_s > 0 and container.program.on_term is not None
            code = container.program.on_term or 0 if heard else 137
            self._time.end(container, self._clock.now(), code, "Completed" if code == 0 else "Error")
        self._after("stop_container", container_id, grace_s)

    async def remove_container(self, container_id: str) -> None:
        container = self.state.containers.get(container_id)
        if container is None:
            return
        self._step("remove_container", container_id, None)
        if container.state == RUNNING:
            self._time.end(container, self._clock.now(), 137, "Error")
        self.state.containers.pop(container_id, None)
        pod = self.state.pods.get(container.pod_uid)
        if pod is not None:
            pod.containers.pop(container_id, None)
        self._after("remove_container", container_id, None)

    async def container(self, container_id: str) -> ContainerState | None:
        container = self.state.containers.get(container_id)
        if container is None:
            return None
        self._time.advance(container, self._clock.now())
        return container.view()

    # resources

    # streams, images, logs

    async def exec(self, container_id: str, command: list[str], tty: bool = False, stdin: bool = False) -> ExecStream:
        self._step("exec", container_id, command)
        container = self._container(container_id)
        if container.state != RUNNING:
            raise CannotRun(f"container {container_id} is not running", "ExecFailed")
        program = read_program(tuple(command), {})
        if program.unknown and not (command[0] == "cat" and stdin):
            # The error is that of a kubelet for an image without the program. Otherwise the caller would wait for its
            # exit forever.
            raise CannotRun(f"failed to exec in container: {_no_program(command[0])} ({_PLAYED})", "ExecFailed")
        return FakeStream.of_program(program, command, stdin, self._clock)

    async def exec_sync(
        self, container_id: str, command: list[str], timeout_s: float = 0.0
    ) -> tuple[int, bytes, bytes]:
        return await exec_sync(self, container_id, command, timeout_s)

    async def attach(self, container_id: str, stdin: bool = False) -> ExecStream:
        container = self._container(container_id)
        if container.state != RUNNING:
            raise CannotRun(f"container {container_id} is not running", "AttachFailed")
        if stdin:
            raise CannotRun("containers of the fake runtime do not read stdin: attach without it", "AttachFailed")
        stream = FakeStream()
        self._time.streams.setdefault(container_id, []).append(stream)
        return stream

    async def connect(self, uid: str, port: int) -> ByteStream:
        self._pod(uid)
        handler = self.state.ports.get((uid, port))
        if handler is None:
            raise RuntimeFailure(f"cannot connect to port {port} of the pod: Connection refused")
        return FakeConnection(handler)

    async def image_status(self, image: str, handler: str = "") -> ImageState | None:
        if image in self.state.missing_images:
            return None
        return ImageState(f"fake:{image}", (image,), user=self.state.image_users.get(image, "65532"))

    async def pull_image(self, image: str, credentials: Credentials | None = None, handler: str = "") -> str:
        self._step("pull_image", image, credentials)
        try:
            parse(image)
        except InvalidReference as error:
            raise invalid_image(image, str(error)) from error
        if image in self.state.missing_images:
            raise ImageMissing(f'failed to pull image "{image}": not found')
        return f"fake:{image}"

    async def images(self) -> list[ImageState]:
        """The images used by containers; any other image is treated as present, too."""
        used = {container.config.image for container in self.state.containers.values()}
        return [found for name in sorted(used) if (found := await self.image_status(name)) is not None]

    async def remove_image(self, image_id: str) -> None:
        """Does nothing, because images are not stored."""

    async def images_folder(self) -> Path | None:
        return None

    async def writable_layer(self, container_id: str) -> Path | None:
        return None

    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        return

    def use_range(self, pod_range: str) -> None:
        return

    async def pod_files(self, uid: str) -> list[Path]:
        return []

    async def reclaim_disk(self) -> None:
        """Does nothing, because fake containers write nothing."""

    # bookkeeping


_PLAYED = "the fake runtime runs no programs: it simulates cat, echo, sleep, exit, true and false"


def _no_program(name: str) -> str:
    return f'exec: "{name}": stat {name}: no such file or directory'


def _annotated(annotations: dict[str, str], key: str, name: str, default: Load) -> Load:
    text = annotations.get(f"{key}.{name}", annotations.get(key))
    if text is None:
        return default
    try:
        return parse_load(text)
    except ValueError as error:
        raise CannotRun(f"annotation {key}: {error}", "CreateContainerConfigError") from error
