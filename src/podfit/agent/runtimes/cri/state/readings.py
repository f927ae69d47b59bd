"""Reads limits and usage of pods and containers from the kernel, or from the runtime if the cgroup cannot be read.

Containers whose cgroup cannot be read, such as virtual machines, are the runtime's alone.
"""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from podfit.agent.runtimes.cgroups.files import Vanished
from podfit.agent.runtimes.cgroups.watch import memory_above, memory_below
from podfit.agent.runtimes.cri.failures import failure
from podfit.agent.runtimes.cri.messages import amounts
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.values import RUNNING, ContainerState, Limits, NotFound, RuntimeFailure, Usage
from podfit.cri import CriError
from podfit.cri import api_pb2 as api

_POLL_S = 1.0


class Readings:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    # --- limits
    async def pod_limits(self, uid: str) -> Limits:
        pod, cgroups = self._inventory.pod(uid), self._inventory.cgroups
        if cgroups is None:
            return pod.config.limits
        try:
            # A runtime lists CPUs in every group; no pod is restricted as a whole.
            return replace(cgroups.limits(pod.group), cpuset_cpus="")
        except Vanished:
            self._inventory.pod_lost(pod)
            raise

    async def container_limits(self, container_id: str) -> Limits:
        known, cgroups = self._inventory.container(container_id), self._inventory.cgroups
        if cgroups is not None and known.group and known.state.state == RUNNING:
            actual = cgroups.limits(known.group)
            return actual if known.pinned else replace(actual, cpuset_cpus="")
        request = api.ContainerStatusRequest(container_id=container_id)
        try:
            answer = await self._inventory.client.ask("ContainerStatus", request)
        except CriError as error:
            raise failure(error) from error
        if not answer.status.HasField("resources") or not answer.status.resources.HasField("linux"):
            return known.kept.limits
        return amounts.limits_of(answer.status.resources.linux)

    # --- usage
    async def pod_usage(self, uid: str) -> Usage:
        pod, cgroups = self._inventory.pod(uid), self._inventory.cgroups
        if cgroups is not None:
            return cgroups.usage(pod.group)
        found = [usage for _, usage in await self.usages(uid)]
        return Usage(
            time.time(),
            sum(usage.cpu_nanos for usage in found),
            sum(usage.memory_bytes for usage in found),
            sum(usage.working_set_bytes for usage in found),
            sum(usage.rss_bytes for usage in found),
        )

    async def container_usage(self, container_id: str) -> Usage:
        known, cgroups = self._inventory.container(container_id), self._inventory.cgroups
        state = known.state
        if state.state != RUNNING:
            # The container's cgroup is gone with it; only the OOM kill remains to be recorded.
            return Usage(state.finished_at or time.time(), oom_kills=int(state.reason == "OOMKilled"))
        if cgroups is not None and known.group:
            return cgroups.usage(known.group)
        try:
            answer = await self._inventory.client.ask(
                "ContainerStats", api.ContainerStatsRequest(container_id=container_id)
            )
        except CriError as error:
            raise failure(error) from error
        return usage_of(answer.stats)

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        pod = self._inventory.pods.get(uid)
        if pod is None or not pod.alive:
            return []
        found = []
        for known in list(pod.containers.values()):
            if known.state.state == RUNNING:
                try:
                    found.append((known.state, await self.container_usage(known.state.id)))
                except RuntimeFailure:
                    # The container has just exited, or the runtime has no statistics of it: others are not affected.
                    continue
        return found

    async def memory_above(self, container_id: str, threshold: int) -> None:
        group = self._inventory.container(container_id).group
        if self._inventory.cgroups is not None and group:
            await memory_above(self._inventory.cgroups, group, threshold)
            return
        while True:
            usage = await self.container_usage(container_id)
            if usage.memory_bytes - usage.cache_bytes >= threshold:
                return
            await asyncio.sleep(_POLL_S)

    def memory_stall(self, container_id: str) -> int | None:
        group = self._inventory.container(container_id).group
        return self._inventory.cgroups.memory_stall(group) if self._inventory.cgroups is not None and group else None

    def hold_memory(self, container_id: str, threshold: int | None) -> None:
        group = self._inventory.container(container_id).group
        if self._inventory.cgroups is not None and group:
            self._inventory.cgroups.hold(group, threshold)

    async def memory_below(self, uid: str, container_id: str, threshold: int) -> None:
        group = self._inventory.container(container_id).group if container_id else self._inventory.pod(uid).group
        if self._inventory.cgroups is not None and group:
            try:
                await memory_below(self._inventory.cgroups, group, threshold)
            except OSError:
                return  # A missing group uses nothing.
            return
        while True:
            try:
                usage = await (self.container_usage(container_id) if container_id else self.pod_usage(uid))
            except NotFound:
                return
            if usage.memory_bytes - usage.cache_bytes < threshold:
                return
            await asyncio.sleep(_POLL_S)


def usage_of(stats: api.ContainerStats) -> Usage:
    """Missing values are 0: a runtime need not fill in everything."""
    memory = stats.memory
    return Usage(
        (stats.cpu.timestamp or memory.timestamp) / 1e9 or time.time(),
        stats.cpu.usage_core_nano_seconds.value,
        memory.usage_bytes.value or memory.working_set_bytes.value,
        memory.working_set_bytes.value,
        memory.rss_bytes.value,
        page_faults=memory.page_faults.value,
        major_page_faults=memory.major_page_faults.value,
    )
