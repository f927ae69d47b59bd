"""A runtime in memory, with the protocol and the manners of the real one: for tests, and nodes by the thousand.

Deterministic under a fake clock. There is one timer a runtime, asleep until the next thing that is bound to happen (a
program's end, a curve that meets its limit), and none while nothing is. Usage is computed when somebody looks.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

from podfit.kit.clock import Clock, RealClock

from .base import (
    CREATED,
    RUNNING,
    BelowUsage,
    ByteStream,
    CannotRun,
    Change,
    ContainerConfig,
    ContainerState,
    Event,
    ExecStream,
    ImageMissing,
    Limits,
    NotFound,
    PodConfig,
    PodState,
    RuntimeFailure,
    Usage,
)
from .fake_load import Load, as_load, parse_load
from .fake_node import (
    DEFAULT_CPU,
    DEFAULT_MEMORY,
    FakeContainer,
    FakeNodeState,
    FakePod,
    changed,
    cores,
    finish,
    usage_of,
)
from .fake_program import read_program
from .fake_streams import FakeConnection, FakeStream, write_log

CPU_ANNOTATION, MEMORY_ANNOTATION = "podfit.dev/fake-cpu", "podfit.dev/fake-memory"
"""On the pod; `podfit.dev/fake-cpu.NAME` is for the container of that name only."""

Loadable = float | Callable[[float], float] | Load


class FakeRuntime:
    name = "fake"
    version = "1"

    def __init__(
        self, clock: Clock | None = None, state: FakeNodeState | None = None, host_ip: str = "127.0.0.1"
    ) -> None:
        self._clock = clock or RealClock()
        self.state = state or FakeNodeState()
        self._ips = (host_ip,)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = math.inf
        self._open = False
        self._due: list[tuple[float, str]] = []
        """A heap of (when, container id); an entry is a reason to look, not a fact."""
        self._ends: dict[str, asyncio.Event] = {}
        self._waits: list[tuple[str, str, int, asyncio.Future[None]]] = []
        self._streams: dict[str, list[FakeStream]] = {}

    # scripting

    def fail_next(self, operation: str, error: BaseException, times: int = 1) -> None:
        """The next calls of that operation raise before they change anything."""
        self.state.failures.setdefault(operation, []).extend([error] * times)

    def set_load(self, uid: str, container: str, cpu: Loadable | None = None, memory: Loadable | None = None) -> None:
        """CPU in cores, memory in bytes, as numbers, functions or curves of the seconds since the container's start."""
        old = self.state.loads.get((uid, container), (None, None))
        given = (as_load(cpu) if cpu is not None else old[0], as_load(memory) if memory is not None else old[1])
        self.state.loads[uid, container] = given
        pod = self.state.pods.get(uid)
        for item in pod.containers.values() if pod else ():
            if item.config.name == container:
                self._account(item)
                item.cpu, item.memory = given[0] or item.cpu, given[1] or item.memory
        self.touch()

    def touch(self) -> None:
        """Lets time's consequences happen now: ends that are due, memory that is out, waits that are over."""
        self._settle(list(self.state.containers.values()))

    # life of the runtime

    async def open(self) -> None:
        self._open = True
        self.touch()

    async def close(self) -> None:
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, math.inf

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()

    # pods

    async def run_pod(self, config: PodConfig) -> None:
        self._step("run_pod", config.uid, config)
        if config.uid not in self.state.pods:
            self.state.pods[config.uid] = FakePod(config, config.limits, self._clock.now())
        self._after("run_pod", config.uid, config)

    async def stop_pod(self, uid: str) -> None:
        pod = self.state.pods.get(uid)
        if pod is None or not pod.alive:
            return
        self._step("stop_pod", uid, None)
        for container in pod.containers.values():
            if container.state == RUNNING:
                self._end(container, self._clock.now(), 137, "Error")
        pod.alive = False
        self._after("stop_pod", uid, None)

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
        image_id = await self.ensure_image(config.image, "IfNotPresent")
        if _bounded(config.limits) and cores(config.limits) > cores(pod.limits):
            raise CannotRun(
                f"failed to create container: cgroup {uid}: Invalid argument (cpu quota)", "CreateContainerError"
            )
        annotations = {**pod.config.annotations, **config.annotations}
        number = self.state.next_number()
        container = FakeContainer(
            id=f"{number:016x}{abs(hash(uid)) % (1 << 64):016x}",
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
            container.message = f"No such file or directory: {container.config.command[0]}"
            raise CannotRun(f"failed to start container: {container.message}", "RunContainerError")
        container.state, container.started_at, container.seen_at = RUNNING, now, now
        self._ends[container_id] = asyncio.Event()
        self._events.put_nowait(Event("started", container.pod_uid, container_id))
        self._after("start_container", container_id, None)
        self._settle([container])

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        container = self.state.containers.get(container_id)
        if container is None or container.state != RUNNING:
            return
        self._step("stop_container", container_id, grace_s)
        if grace_s > 0 and container.program.on_term is None:
            await self._ended_within(container_id, grace_s)
        if container.state == RUNNING:
            heard = grace_s > 0 and container.program.on_term is not None
            code = container.program.on_term or 0 if heard else 137
            self._end(container, self._clock.now(), code, "Completed" if code == 0 else "Error")
        self._after("stop_container", container_id, grace_s)

    async def _ended_within(self, container_id: str, seconds: float) -> None:
        """By our clock: under a fake one the grace passes when the test says so."""
        ended = asyncio.ensure_future(self._ends[container_id].wait())
        grace = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({ended, grace}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            grace.cancel()

    async def remove_container(self, container_id: str) -> None:
        container = self.state.containers.get(container_id)
        if container is None:
            return
        self._step("remove_container", container_id, None)
        if container.state == RUNNING:
            self._end(container, self._clock.now(), 137, "Error")
        self.state.containers.pop(container_id, None)
        self._ends.pop(container_id, None)
        pod = self.state.pods.get(container.pod_uid)
        if pod is not None:
            pod.containers.pop(container_id, None)
        self._after("remove_container", container_id, None)

    async def container(self, container_id: str) -> ContainerState | None:
        container = self.state.containers.get(container_id)
        if container is None:
            return None
        self._advance(container, self._clock.now())
        return container.view()

    # resources

    async def update_pod(self, uid: str, change: Change) -> None:
        self._step("update_pod", uid, change)
        pod = self._pod(uid)
        for item in pod.containers.values():
            self._advance(item, self._clock.now())
        limits = changed(pod.limits, change)
        if any(cores(item.limits) > cores(limits) for item in pod.containers.values() if _bounded(item.limits)):
            raise RuntimeFailure(f"cgroup pod{uid}: Invalid argument (cpu.cfs_quota_us)")
        self._check_fits(pod.memory_at(self._clock.now()), limits, change)
        for item in pod.containers.values():
            self._account(item)
        pod.limits = limits
        self._after("update_pod", uid, change)
        self._settle(list(pod.containers.values()))

    async def update_container(self, container_id: str, change: Change) -> None:
        self._step("update_container", container_id, change)
        container = self._container(container_id)
        self._advance(container, self._clock.now())
        limits = changed(container.limits, change)
        if _bounded(limits) and cores(limits) > cores(self._pod(container.pod_uid).limits):
            raise RuntimeFailure(f"cgroup {container_id}: Invalid argument (cpu.cfs_quota_us)")
        self._check_fits(container.memory_at(self._clock.now()), limits, change)
        self._account(container)
        container.limits = limits
        self._after("update_container", container_id, change)
        self._settle(list(self._pod(container.pod_uid).containers.values()))

    @staticmethod
    def _check_fits(usage: int, limits: Limits, change: Change) -> None:
        if change.memory_bytes is not None and limits.memory_bytes is not None and usage > limits.memory_bytes:
            raise BelowUsage(usage, limits.memory_bytes)

    async def pod_limits(self, uid: str) -> Limits:
        return self._pod(uid).limits

    async def container_limits(self, container_id: str) -> Limits:
        return self._container(container_id).limits

    async def pod_usage(self, uid: str) -> Usage:
        pod = self._pod(uid)
        self._settle(list(pod.containers.values()))
        for item in pod.containers.values():
            self._account(item)
        return usage_of(list(pod.containers.values()), self._clock.now())

    async def container_usage(self, container_id: str) -> Usage:
        container = self._container(container_id)
        self._advance(container, self._clock.now())
        self._account(container)
        return usage_of([container], self._clock.now())

    async def memory_below(self, uid: str, container_id: str, bytes: int) -> None:
        if self._memory(uid, container_id, self._clock.now()) < bytes:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (uid, container_id, bytes, done)
        self._waits.append(entry)
        self._set_timer()
        try:
            await done
        finally:
            self._waits.remove(entry)

    # streams, images, logs

    async def exec(self, container_id: str, command: list[str], tty: bool = False, stdin: bool = False) -> ExecStream:
        self._step("exec", container_id, command)
        container = self._container(container_id)
        if container.state != RUNNING:
            raise CannotRun(f"container {container_id} is not running", "ExecFailed")
        if "/nonexistent" in command[0]:
            raise CannotRun(f"failed to exec in container: No such file or directory: {command[0]}", "ExecFailed")
        return FakeStream.of_program(read_program(tuple(command), {}), command, stdin, self._clock)

    async def attach(self, container_id: str, stdin: bool = False) -> ExecStream:
        container = self._container(container_id)
        if container.state != RUNNING:
            raise CannotRun(f"container {container_id} is not running", "AttachFailed")
        stream = FakeStream()
        self._streams.setdefault(container_id, []).append(stream)
        return stream

    async def connect(self, uid: str, port: int) -> ByteStream:
        self._pod(uid)
        handler = self.state.ports.get((uid, port))
        if handler is None:
            raise RuntimeFailure(f"cannot connect to port {port} of the pod: Connection refused")
        return FakeConnection(handler)

    async def ensure_image(self, image: str, policy: str) -> str:
        if image in self.state.missing_images:
            reason = "ErrImageNeverPull" if policy == "Never" else "ErrImagePull"
            raise ImageMissing(f'failed to pull image "{image}": not found', reason)
        if not image or image != image.strip() or " " in image:
            raise ImageMissing(
                f'Failed to apply default image tag "{image}": invalid reference format', "InvalidImageName"
            )
        return f"fake:{image}"

    async def reopen_log(self, container_id: str) -> None:
        self._container(container_id).config.log_file.touch()

    # time

    def _settle(self, containers: list[FakeContainer]) -> None:
        """After something changed for these: what is due happens, and the timer knows what is next."""
        now = self._clock.now()
        for container in containers:
            self._advance(container, now)
            due = self._next_due(container)
            if due != math.inf:
                heapq.heappush(self._due, (due, container.id))
        self._wake_waits(now)
        self._set_timer()

    def _advance(self, container: FakeContainer, now: float) -> None:
        """Makes happen what was bound to happen to it by now."""
        if container.state != RUNNING:
            return
        for stream in write_log(container, now - container.started_at):
            for listener in self._streams.get(container.id, ()):
                listener.feed(*stream)
        dry, end = self._dry_at(container), container.started_at + container.program.runs_s
        if dry is not None and dry <= min(now, end):
            container.oom_kills += 1
            self._events.put_nowait(Event("oom", container.pod_uid, container.id))
            self._end(container, dry, 137, "OOMKilled")
        elif end <= now:
            code = container.program.code
            self._end(container, end, code, "Completed" if code == 0 else "Error")

    def _dry_at(self, container: FakeContainer) -> float | None:
        """When it runs out of memory, if its own curve decides; a pod's limit is looked at as things are now."""
        pod = self.state.pods.get(container.pod_uid)
        since = max(container.seen_at - container.started_at, 0.0)
        bounds = [item for item in (container.limits.memory_bytes,) if item is not None]
        if pod is not None and pod.limits.memory_bytes is not None:
            others = pod.memory_at(self._clock.now()) - container.memory_at(self._clock.now())
            bounds.append(max(0, pod.limits.memory_bytes - others))
        if not bounds:
            return None
        after = container.memory.first_above(float(min(bounds)), since)
        return None if after is None else container.started_at + after

    def _end(self, container: FakeContainer, at: float, code: int, reason: str) -> None:
        pod = self.state.pods.get(container.pod_uid)
        finish(container, at, code, reason, pod.limits if pod else Limits())
        for listener in self._streams.pop(container.id, ()):
            listener.finish(code)
        ended = self._ends.get(container.id)
        if ended is not None:
            ended.set()
        self._events.put_nowait(Event("exited", container.pod_uid, container.id))

    def _set_timer(self) -> None:
        due = min([self._due[0][0] if self._due else math.inf, *(self._wait_due(*wait[:3]) for wait in self._waits)])
        if not self._open or due == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, due
        if due != math.inf:
            self._timer = asyncio.get_running_loop().create_task(self._sleep_until(due))

    async def _sleep_until(self, due: float) -> None:
        await self._clock.sleep(max(0.0, due - self._clock.now()))
        self._timer, self._timer_at = None, math.inf
        now, ripe = self._clock.now(), set[str]()
        while self._due and self._due[0][0] <= now:
            ripe.add(heapq.heappop(self._due)[1])
        self._settle([self.state.containers[cid] for cid in sorted(ripe) if cid in self.state.containers])

    def _next_due(self, container: FakeContainer) -> float:
        if container.state != RUNNING:
            return math.inf
        dry, output = self._dry_at(container), container.program.output
        ends = container.started_at + container.program.runs_s
        speaks = container.started_at + output[container.said][0] if container.said < len(output) else math.inf
        return min(ends, speaks, math.inf if dry is None else dry)

    def _wait_due(self, uid: str, container_id: str, bytes: int) -> float:
        """When a lone container's curve falls below; a pod's sum is looked at once a second."""
        container = self.state.containers.get(container_id)
        if container is None or container.state != RUNNING:
            return self._clock.now() + 1.0
        now = self._clock.now()
        below = container.memory.first_below(float(bytes), now - container.started_at)
        return math.inf if below is None else container.started_at + below

    def _wake_waits(self, now: float) -> None:
        for uid, container_id, bytes, done in self._waits:
            if not done.done() and self._memory(uid, container_id, now) < bytes:
                done.set_result(None)

    # bookkeeping

    def _memory(self, uid: str, container_id: str, now: float) -> int:
        holder = self.state.containers.get(container_id) if container_id else self.state.pods.get(uid)
        return holder.memory_at(now) if holder is not None else 0

    def _account(self, container: FakeContainer) -> None:
        pod = self.state.pods.get(container.pod_uid)
        container.account(self._clock.now(), pod.limits if pod else Limits())

    def _step(self, operation: str, subject: str, argument: Any) -> None:
        for hook in self.state.hooks:
            hook("before", operation, subject, argument)
        failures = self.state.failures.get(operation)
        if failures:
            raise failures.pop(0)

    def _after(self, operation: str, subject: str, argument: Any) -> None:
        if self.state.journal is not None:
            self.state.journal.append((operation, subject, argument))
        for hook in self.state.hooks:
            hook("after", operation, subject, argument)

    def _pod(self, uid: str) -> FakePod:
        pod = self.state.pods.get(uid)
        if pod is None:
            raise NotFound(f"pod {uid} not found")
        return pod

    def _container(self, container_id: str) -> FakeContainer:
        container = self.state.containers.get(container_id)
        if container is None:
            raise NotFound(f"container {container_id} not found")
        return container


def _bounded(limits: Limits) -> bool:
    return limits.cpu_quota_us is not None


def _annotated(annotations: dict[str, str], key: str, name: str, default: Load) -> Load:
    text = annotations.get(f"{key}.{name}", annotations.get(key))
    if text is None:
        return default
    try:
        return parse_load(text)
    except ValueError as error:
        raise CannotRun(f"annotation {key}: {error}", "CreateContainerConfigError") from error
