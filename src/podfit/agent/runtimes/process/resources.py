"""The process runtime's calls about resources: limits, usage and memory pressure, read from cgroups and written to
them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from podfit.agent.runtimes.cgroups import Cgroups
from podfit.agent.runtimes.cgroups.files import Vanished
from podfit.agent.runtimes.cgroups.watch import memory_above, memory_below
from podfit.agent.runtimes.process.link import KeeperFailed, Link
from podfit.agent.runtimes.process.records import Container, Known, Pod
from podfit.agent.runtimes.values import (
    UNLIMITED,
    ContainerState,
    Limits,
    LimitsChange,
    RuntimeEvent,
    RuntimeFailure,
    Usage,
    no_machine,
)
from podfit.kit.concurrency.tasks import Tasks


class ResourceCalls(Known):
    _cgroups: Cgroups
    _link: Link
    _tasks: Tasks
    _events: asyncio.Queue[RuntimeEvent]

    async def update_pod(self, uid: str, change: LimitsChange) -> None:
        pod = self._pod(uid)
        with self._noticing(pod):
            self._cgroups.write(pod.record.group, change)

    async def update_container(self, container_id: str, change: LimitsChange) -> None:
        container = self._container(container_id)
        with self._noticing(self._pod(container.record.pod_uid), container):
            self._cgroups.write(container.record.group, change)

    async def update_all(self, uid: str, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        return False  # no other runtime is behind this one

    async def set_power(self, container_id: str, power: str, grace_s: float) -> None:
        raise no_machine(container_id)

    async def pod_limits(self, uid: str) -> Limits:
        pod = self._pod(uid)
        with self._noticing(pod):
            return self._cgroups.limits(pod.record.group)

    async def container_limits(self, container_id: str) -> Limits:
        container = self._container(container_id)
        with self._noticing(self._pod(container.record.pod_uid), container):
            return self._cgroups.limits(container.record.group)

    async def pod_usage(self, uid: str) -> Usage:
        return self._cgroups.usage(self._pod(uid).record.group)

    async def container_usage(self, container_id: str) -> Usage:
        return self._cgroups.usage(self._container(container_id).record.group)

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        pod = self._pods.get(uid)
        running = [item for item in pod.containers.values() if item.running] if pod is not None and pod.alive else []
        return [(item.view(), self._cgroups.usage(item.record.group)) for item in running]

    async def memory_above(self, uid: str, container_id: str, bytes: int) -> None:
        await memory_above(self._cgroups, self._container(container_id).record.group, bytes)

    async def memory_stall(self, container_id: str) -> int | None:
        return self._cgroups.memory_stall(self._container(container_id).record.group)

    async def hold_memory(self, container_id: str, bytes: int | None) -> None:
        self._cgroups.hold(self._container(container_id).record.group, bytes)

    async def memory_below(self, uid: str, container_id: str, bytes: int) -> None:
        record = self._container(container_id).record if container_id else self._pod(uid).record
        with suppress(FileNotFoundError):
            # A missing group uses nothing.
            await memory_below(self._cgroups, record.group, bytes)

    @contextmanager
    def _noticing(self, pod: Pod, container: Container | None = None) -> Iterator[None]:
        """Detects that another program removed one of our cgroups. A pod without its cgroup is recreated; a process
        that was moved out of its container's group runs without limits and is killed, so that its pod restarts it."""
        try:
            yield
        except Vanished:
            if not self._cgroups.exists(pod.record.group):
                self._pod_lost(pod)
            elif container is not None and container.running:
                self._tasks.start(self._kill(container), f"kill-{container.record.id}")
            raise

    def _pod_lost(self, pod: Pod) -> None:
        if not pod.lost and not pod.record.stopped:
            pod.lost = True
            self._events.put_nowait(RuntimeEvent("pod-gone", pod.record.config.uid))

    async def _kill(self, container: Container) -> None:
        """Kills the container: all members of its group, and the init process of its namespace through the keeper. The
        latter also ends a process that was moved out of the group."""
        self._cgroups.kill_all(container.record.group)
        if container.running:
            with suppress(KeeperFailed):
                await self._link.ask("signal", id=container.record.id, signal=int(signal.SIGKILL))

    def _free_quota(self, container: Container) -> None:
        """Removes the quota of an exited container. Its group is kept for the counters, but must not keep the pod's
        quota from being lowered."""
        with suppress(RuntimeFailure):
            self._cgroups.write(container.record.group, LimitsChange(cpu_quota_us=UNLIMITED))
