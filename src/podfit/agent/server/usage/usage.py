"""A snapshot of the usage of everything on the node, cached for at most a second for all requests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from podfit.agent.agent import Agent
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import RUNNING, ContainerState, Limits, RuntimeFailure, Usage
from podfit.api.numbers import Key, NodeReading, Reading
from podfit.kit.concurrency.time_slice import TimeSlice

FRESH_S = 1.0
_TURN_S = 0.0005
"""Reading blocks the event loop: this limits how long a resize waits for it, in addition to the pod being read."""
_TICK_NANOS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ContainerSample:
    state: ContainerState
    usage: Usage
    limits: Limits
    nano_cores: int | None
    """CPU usage between the last two snapshots; None until there are two."""


@dataclass(frozen=True, slots=True)
class PodSample:
    record: PodRecord
    created_at: float
    usage: Usage
    limits: Limits
    nano_cores: int | None
    containers: tuple[ContainerSample, ...]


@dataclass(frozen=True, slots=True)
class NodeSample:
    at: float
    usage: Usage
    nano_cores: int | None
    pods: tuple[PodSample, ...]
    errors: int = 0
    """Pods that could not be read."""


def resources_of(node: NodeSample) -> NodeReading:
    """Selects the values that a meter needs."""
    usage = node.usage
    reading = NodeReading(Reading(node.at, usage.cpu_nanos / 1e9, usage.working_set_bytes))
    for pod in node.pods:
        for container in pod.containers:
            reading.containers[pod.record.namespace, pod.record.name, container.state.name] = _reading(
                container.state, container.usage
            )
        reading.oom_ends.update(_oom_ends(pod.record))
    return reading


def _oom_ends(record: PodRecord) -> dict[Key, int]:
    return {(record.namespace, record.name, name): count for name, count in record.ooms.items()}


def _reading(state: ContainerState, usage: Usage) -> Reading:
    counters = float(usage.periods), float(usage.throttled_periods)
    return Reading(usage.at, usage.cpu_nanos / 1e9, usage.working_set_bytes, state.started_at, *counters)


@dataclass(slots=True)
class _Rates:
    """CPU rates from the last two readings of each counter. A counter that fell was reset and has no rate yet."""

    last: dict[str, tuple[float, int, int | None]] = field(default_factory=dict)
    seen: dict[str, tuple[float, int, int | None]] = field(default_factory=dict)

    def of(self, key: str, usage: Usage) -> int | None:
        before = self.last.get(key)
        rate: int | None = None
        if before is not None and usage.cpu_nanos >= before[1]:
            passed = usage.at - before[0]
            rate = int((usage.cpu_nanos - before[1]) / passed) if passed > 0 else before[2]
        self.seen[key] = (usage.at, usage.cpu_nanos, rate)
        return rate

    def turn(self) -> None:
        """Ends a snapshot: counters that it did not contain are dropped."""
        self.last, self.seen = self.seen, {}


class UsageReader:
    def __init__(self, agent: Agent, machine: bool = True) -> None:
        """`machine`: the node is this machine. Otherwise its usage is the sum of its pods'."""
        self._agent, self._machine = agent, machine
        self._rates = _Rates()
        self._kept: tuple[float, NodeSample] | None = None
        self._kept_numbers: tuple[float, NodeReading] | None = None
        self._lock = asyncio.Lock()

    async def read(self) -> NodeSample:
        async with self._lock:
            now = self._agent.clock.monotonic()
            if self._kept is None or not _fresh(self._kept[0], now):
                self._kept = (now, await self._read())
            return self._kept[1]

    async def resources(self) -> NodeReading:
        """The values that a meter needs, as numbers. A meter reads every few seconds, so this has to be cheap: only
        containers are read from the kernel, and limits and rates are omitted."""
        async with self._lock:
            now = self._agent.clock.monotonic()
            if self._kept is not None and _fresh(self._kept[0], now):
                return resources_of(self._kept[1])
            if self._kept_numbers is None or not _fresh(self._kept_numbers[0], now):
                self._kept_numbers = (now, await self._read_numbers())
            return self._kept_numbers[1]

    async def _read(self) -> NodeSample:
        pods: list[PodSample] = []
        errors = 0
        for record in list(self._agent.records.values()):
            try:
                if (sample := await self._pod(record)) is not None:
                    pods.append(sample)
            except (RuntimeFailure, OSError):
                # The container may have exited between two reads; then there is nothing to count.
                state = await self._agent.runtime.pod(record.uid)
                errors += int(state is not None and state.alive)
            # Reading files blocks the loop: without this pause a resize would wait for all of them.
            await asyncio.sleep(0)
        at = self._agent.clock.now()
        usage = machine_usage(at) if self._machine else _sum([pod.usage for pod in pods], at)
        rate = self._rates.of("", usage)
        self._rates.turn()
        return NodeSample(at, usage, rate, tuple(pods), errors)

    async def _read_numbers(self) -> NodeReading:
        runtime = self._agent.runtime
        readings: dict[Key, Reading] = {}
        oom_ends: dict[Key, int] = {}
        cpu_nanos = memory = 0
        turns = TimeSlice(self._agent.clock, _TURN_S)
        for record in list(self._agent.records.values()):
            try:
                uses = await runtime.usages(record.uid)
            except (RuntimeFailure, OSError):
                # A container exited between two reads, or cannot be read now. A subset of the pod's containers would be
                # misleading.
                uses = []
            for container, use in uses:
                readings[record.namespace, record.name, container.name] = _reading(container, use)
                cpu_nanos += use.cpu_nanos
                memory += use.working_set_bytes
            if record.ooms:
                oom_ends.update(_oom_ends(record))
            if turns.over():
                await turns.give()
        at = self._agent.clock.now()
        if self._machine:
            whole = machine_usage(at)
            cpu_nanos, memory = whole.cpu_nanos, whole.working_set_bytes
        return NodeReading(Reading(at, cpu_nanos / 1e9, memory), readings, oom_ends)

    async def _pod(self, record: PodRecord) -> PodSample | None:
        runtime = self._agent.runtime
        state = await runtime.pod(record.uid)
        if state is None or not state.alive:
            return None
        running = [container for container in state.containers if container.state == RUNNING]
        containers = []
        for container in running:
            usage = await runtime.container_usage(container.id)
            limits = await runtime.container_limits(container.id)
            containers.append(ContainerSample(container, usage, limits, self._rates.of(container.id, usage)))
        usage, limits = await runtime.pod_usage(record.uid), await runtime.pod_limits(record.uid)
        rate = self._rates.of(record.uid, usage)
        return PodSample(record, state.created_at, usage, limits, rate, tuple(containers))


def _fresh(since: float, now: float) -> bool:
    return 0 <= now - since < FRESH_S


def machine_usage(at: float, read: Callable[[str], str] = lambda name: Path("/proc", name).read_text()) -> Usage:
    """The whole machine: CPU time that was not idle, memory that is neither free nor an inactive file's."""
    words = read("stat").split("\n", 1)[0].split()[1:]
    ticks = [int(word) for word in words]
    # user nice system idle iowait irq softirq steal guest guest_nice: guest time is included in user already.
    busy = sum(ticks[index] for index in (0, 1, 2, 5, 6, 7) if index < len(ticks))
    memory = {
        parts[0].rstrip(":"): int(parts[1]) * 1024
        for parts in (line.split() for line in read("meminfo").splitlines())
        if len(parts) >= 2
    }
    used = memory["MemTotal"] - memory["MemFree"]
    return Usage(
        at,
        cpu_nanos=busy * _TICK_NANOS,
        memory_bytes=used,
        working_set_bytes=max(0, used - memory.get("Inactive(file)", 0)),
        rss_bytes=memory.get("AnonPages", 0),
        cache_bytes=memory.get("Cached", 0),
    )


def _sum(usages: list[Usage], at: float) -> Usage:
    return Usage(
        at,
        cpu_nanos=sum(usage.cpu_nanos for usage in usages),
        memory_bytes=sum(usage.memory_bytes for usage in usages),
        working_set_bytes=sum(usage.working_set_bytes for usage in usages),
        rss_bytes=sum(usage.rss_bytes for usage in usages),
        cache_bytes=sum(usage.cache_bytes for usage in usages),
    )
