"""The fake runtime's calls about resources: limits, usage and memory, simulated for each container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podfit.agent.runtimes.fake.node import (
    FakeContainer,
    FakeNodeState,
    FakePod,
    changed,
    cores,
    usage_of,
    usage_together,
)
from podfit.agent.runtimes.fake.time import FakeTime
from podfit.agent.runtimes.values import (
    EXITED,
    RUNNING,
    BelowUsage,
    ContainerState,
    Limits,
    LimitsChange,
    NotFound,
    Usage,
    WriteRefused,
    no_machine,
)
from podfit.kit.clock import Clock


class Known:
    """The pods and containers of the simulated node, and its scripted failures."""

    state: FakeNodeState
    _clock: Clock
    _time: FakeTime

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


class ResourceCalls(Known):
    async def update_pod(self, uid: str, change: LimitsChange) -> None:
        self._step("update_pod", uid, change)
        pod, now = self._pod(uid), self._clock.now()
        for item in pod.containers.values():
            self._time.advance(item, now)
        limits = changed(pod.limits, change)
        allowed = cores(limits)
        for item in pod.containers.values():
            if item.state != EXITED and has_quota(item.limits) and cores(item.limits) > allowed:
                raise WriteRefused(f"pod{uid}", "Invalid argument (cpu.cfs_quota_us)")
        self._check_fits(pod, limits, change)
        for item in pod.containers.values():
            self._time.account(item, now)
        pod.limits = limits
        self._after("update_pod", uid, change)
        self._settle(pod, change)

    async def update_container(self, container_id: str, change: LimitsChange) -> None:
        self._step("update_container", container_id, change)
        container, now = self._container(container_id), self._clock.now()
        self._time.advance(container, now)
        limits = changed(container.limits, change)
        if has_quota(limits) and cores(limits) > cores(self._pod(container.pod_uid).limits):
            raise WriteRefused(container_id, "Invalid argument (cpu.cfs_quota_us)")
        self._check_fits(container, limits, change)
        self._time.account(container, now)
        container.limits = limits
        self._after("update_container", container_id, change)
        self._settle(self._pod(container.pod_uid), change)

    async def set_power(self, container_id: str, power: str, grace_s: float) -> None:
        raise no_machine(container_id)

    def _check_fits(self, holder: FakePod | FakeContainer, limits: Limits, change: LimitsChange) -> None:
        if change.memory_bytes is not None and limits.memory_bytes is not None:
            usage = holder.memory_at(self._clock.now())
            if usage > limits.memory_bytes:
                raise BelowUsage(usage, limits.memory_bytes)

    def _settle(self, pod: FakePod, change: LimitsChange) -> None:
        """Future events depend on memory only: a program's runtime does not depend on its CPU."""
        if change.memory_bytes is not None:
            self._time.settle(list(pod.containers.values()))

    async def update_all(self, uid: str, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        return False  # no other runtime is behind this one

    async def pod_limits(self, uid: str) -> Limits:
        return self._pod(uid).limits

    async def container_limits(self, container_id: str) -> Limits:
        return self._container(container_id).limits

    async def pod_usage(self, uid: str) -> Usage:
        pod = self._pod(uid)
        self._time.settle(list(pod.containers.values()))
        now = self._clock.now()
        for item in pod.containers.values():
            self._time.account(item, now)
        return usage_together(list(pod.containers.values()), now)

    async def container_usage(self, container_id: str) -> Usage:
        return self._usage(self._container(container_id))

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        pod = self.state.pods.get(uid)
        running = [item for item in pod.containers.values() if item.state == RUNNING] if pod and pod.alive else []
        return [(item.view(), self._usage(item)) for item in running]

    def _usage(self, container: FakeContainer) -> Usage:
        now = self._clock.now()
        self._time.advance(container, now)
        self._time.account(container, now)
        return usage_of(container, now)

    async def memory_above(self, uid: str, container_id: str, bytes: int) -> None:
        await self._time.memory_above(uid, container_id, bytes)

    async def memory_stall(self, container_id: str) -> int | None:
        return None

    async def hold_memory(self, container_id: str, bytes: int | None) -> None:
        return

    async def memory_below(self, uid: str, container_id: str, bytes: int) -> None:
        await self._time.memory_below(uid, container_id, bytes)


def has_quota(limits: Limits) -> bool:
    return limits.cpu_quota_us is not None
