"""The fake machine: pods and containers as numbers, accounted for lazily, when they are read.

It outlives the runtime that uses it, as a kernel outlives an agent: pass the same `FakeNodeState` to the next
`FakeRuntime` to simulate an agent's restart. Nothing here runs by itself; the runtime's single timer calls `advance`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from podfit.agent.runtimes.fake.load import Load, constant
from podfit.agent.runtimes.fake.program import Program
from podfit.agent.runtimes.values import (
    CREATED,
    EXITED,
    RUNNING,
    UNLIMITED,
    ContainerConfig,
    ContainerState,
    Limits,
    LimitsChange,
    LinuxUser,
    PodConfig,
    PodState,
    Security,
    Usage,
)

DEFAULT_CPU, DEFAULT_MEMORY = constant(0.001), constant(float(4 << 20))
"""A container without a configured load: one thousandth of a core, 4 MiB."""

Hook = Callable[[str, str, str, Any], None]
"""(`before` or `after`, operation, pod UID or container id, argument); may raise, as a crash would."""


@dataclass(slots=True)
class FakeContainer:
    id: str
    pod_uid: str
    config: ContainerConfig
    image_id: str
    created_at: float
    limits: Limits
    program: Program
    cpu: Load = DEFAULT_CPU
    memory: Load = DEFAULT_MEMORY
    state: str = CREATED
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    pid: int = 0
    said: int = 0
    """The number of lines of output written so far."""
    # accounted up to `seen_at`
    seen_at: float = 0.0
    cpu_seconds: float = 0.0
    throttled_seconds: float = 0.0
    throttled_periods: float = 0.0
    periods: float = 0.0
    oom_kills: int = 0
    _view: ContainerState | None = None

    def cores_allowed(self, pod: Limits) -> float:
        return min(cores(self.limits), cores(pod))

    def memory_at(self, now: float) -> int:
        return int(self.memory.at(max(0.0, now - self.started_at))) if self.state == RUNNING else 0

    def account(self, now: float, pod: Limits) -> None:
        """Adds the usage since the last call, under the limits in force during that time."""
        if self.state != RUNNING or now <= self.seen_at:
            return
        start, end = self.seen_at - self.started_at, now - self.started_at
        allowed = self.cores_allowed(pod)
        used, refused = self.cpu.areas(start, end, allowed)
        self.cpu_seconds += used
        self.seen_at = now
        if allowed == math.inf:
            return
        self.periods += (end - start) * 1e6 / self.limits.cpu_period_us
        if refused > 0:
            self.throttled_seconds += refused
            throttled_s = self.cpu.time_above(start, end, allowed)
            self.throttled_periods += throttled_s * 1e6 / self.limits.cpu_period_us

    def view(self) -> ContainerState:
        """The container's state, rebuilt when the state or the message changes: times, code and reason are set with the
        state."""
        if self._view is None or self._view.state != self.state or self._view.message != self.message:
            self._view = self._made_view()
        return self._view

    def _made_view(self) -> ContainerState:
        security = self.config.security
        return ContainerState(
            self.id,
            self.config.name,
            self.config.attempt,
            self.state,
            self.config.image,
            self.image_id,
            self.created_at,
            self.started_at,
            self.finished_at,
            self.exit_code,
            self.reason,
            self.message,
            self.pid if self.state == RUNNING else 0,
            self.config.limits,
            self.config.annotations,
            _user(security),
        )


def _user(security: Security) -> LinuxUser | None:
    if security.uid is None:
        return None
    gid = security.gid or 0
    return LinuxUser(security.uid, gid, tuple(dict.fromkeys([gid, *security.groups])))


@dataclass(slots=True)
class FakePod:
    config: PodConfig
    limits: Limits
    created_at: float
    alive: bool = True
    containers: dict[str, FakeContainer] = field(default_factory=dict)

    def memory_at(self, now: float) -> int:
        return sum(item.memory_at(now) for item in self.containers.values())

    def view(self, ips: tuple[str, ...]) -> PodState:
        views = tuple(item.view() for item in self.containers.values())
        return PodState(self.config, self.alive, ips if self.alive else (), self.created_at, views)


@dataclass(slots=True)
class FakeNodeState:
    pods: dict[str, FakePod] = field(default_factory=dict)
    containers: dict[str, FakeContainer] = field(default_factory=dict)
    hooks: list[Hook] = field(default_factory=list)
    failures: dict[str, list[BaseException]] = field(default_factory=dict)
    image_users: dict[str, str] = field(default_factory=dict)
    """USER of images; others do not run as root."""
    missing_images: set[str] = field(default_factory=set)
    ports: dict[tuple[str, int], Callable[[bytes], bytes]] = field(default_factory=dict)
    loads: dict[tuple[str, str], tuple[Load | None, Load | None]] = field(default_factory=dict)
    """(pod UID, container name) → CPU and memory load of every attempt of the container."""
    journal: list[tuple[str, str, Any]] | None = None
    """Set it to [] to record every operation: (operation, pod UID or container id, argument)."""
    numbers: int = 0
    owner: object = None
    """The runtime that currently uses the node; the timer of an earlier runtime must not act any more."""

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers


def cores(limits: Limits) -> float:
    return math.inf if limits.cpu_quota_us is None else limits.cpu_quota_us / limits.cpu_period_us


def changed(limits: Limits, change: LimitsChange) -> Limits:
    shares, quota, memory = change.cpu_shares, change.cpu_quota_us, change.memory_bytes
    return Limits(
        limits.cpu_shares if shares is None else shares,
        limits.cpu_quota_us if quota is None else None if quota == UNLIMITED else quota,
        limits.memory_bytes if memory is None else None if memory == UNLIMITED else memory,
        limits.cpu_period_us,
        change.cpuset_cpus or limits.cpuset_cpus,
    )


def usage_of(container: FakeContainer, now: float) -> Usage:
    memory = container.memory_at(now)
    return Usage(
        at=now,
        cpu_nanos=int(container.cpu_seconds * 1e9),
        memory_bytes=memory,
        working_set_bytes=memory,
        rss_bytes=memory,
        throttled_periods=int(container.throttled_periods),
        periods=int(container.periods),
        throttled_nanos=int(container.throttled_seconds * 1e9),
        oom_kills=container.oom_kills,
        processes=int(container.state == RUNNING),
    )


def usage_together(containers: list[FakeContainer], now: float) -> Usage:
    memory = sum(item.memory_at(now) for item in containers)
    return Usage(
        at=now,
        cpu_nanos=int(sum(item.cpu_seconds for item in containers) * 1e9),
        memory_bytes=memory,
        working_set_bytes=memory,
        rss_bytes=memory,
        throttled_periods=int(sum(item.throttled_periods for item in containers)),
        periods=int(sum(item.periods for item in containers)),
        throttled_nanos=int(sum(item.throttled_seconds for item in containers) * 1e9),
        oom_kills=sum(item.oom_kills for item in containers),
        processes=sum(item.state == RUNNING for item in containers),
    )


def finish(container: FakeContainer, at: float, code: int, reason: str, pod: Limits) -> None:
    container.account(at, pod)
    container.state, container.finished_at, container.exit_code, container.reason = EXITED, at, code, reason
