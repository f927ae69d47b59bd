"""Limits and usage of pods and containers: the cgroup first, then the runtime.

The pod's cgroup is the agent's own. A container's is the runtime's, but the agent writes it too, before it asks the
runtime: the kernel has the new limit within a millisecond and says at once what it refuses, and the runtime (which
starts a program for every update) catches up. If the runtime refuses what the kernel accepted, the cgroup is put back.
If it does not answer, the kernel's values stand, and it is asked again until it has caught up: nobody knows whether it
did what was asked, and both orders end the same.

Containers whose cgroup cannot be read, such as virtual machines, are the runtime's alone.
"""

from __future__ import annotations

import asyncio
import logging
import time

from msgspec.structs import replace

from podfit.cri import CriError
from podfit.cri import api_pb2 as api
from podfit.kit.backoff import Backoff

from ..base import RUNNING, UNLIMITED, Change, ContainerState, Limits, NotFound, RuntimeFailure, Usage
from ..cgroups import Vanished
from ..cgroups.watch import memory_below
from . import amounts
from .book import Book
from .failures import failure
from .quotas import write_pod
from .records import Container, Pod

log = logging.getLogger(__name__)

UPDATE_S = 10.0
"""How long a resize waits for the runtime. The kernel has the values by then."""
_POLL_S = 1.0


class Resources:
    def __init__(self, book: Book) -> None:
        self._book = book
        self._behind: dict[str, Change] = {}
        """What the runtime has still to be asked for, by container."""
        self._pod_updates = True
        """Whether the runtime serves UpdatePodSandboxResources."""

    # --- changes
    async def update_pod(self, uid: str, change: Change) -> None:
        pod, cgroups = self._book.pod(uid), self._book.cgroups
        if cgroups is not None:
            try:
                await write_pod(cgroups, pod.group, change)
            except Vanished:
                self._lose(pod)
                raise
        if self._pod_updates and pod.alive:
            await self._tell_pod(pod, change)

    async def _tell_pod(self, pod: Pod, change: Change) -> None:
        """For runtimes and their plugins that want to know; the cgroup is written already."""
        request = api.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=pod.sandbox_id, resources=amounts.update(change, pod.config.limits.cpu_period_us)
        )
        try:
            await self._book.client.ask("UpdatePodSandboxResources", request, UPDATE_S)
        except CriError as error:
            if error.code == "UNIMPLEMENTED":
                self._pod_updates = False
            elif not error.unreached:
                log.warning("pod %s: the runtime did not take its new resources: %s", pod.config.uid, error.words)

    async def update_container(self, container_id: str, change: Change) -> None:
        known = self._book.container(container_id)
        async with known.lock:
            before = self._write(known, change)
            try:
                await self._ask(known, self._merged(container_id, change))
                self._behind.pop(container_id, None)
                known.pinned = known.pinned or bool(change.cpuset_cpus)
            except CriError as error:
                if before is None:
                    raise failure(error) from error
                if error.unreached:
                    self._catch_up_later(known, change)
                    known.pinned = known.pinned or bool(change.cpuset_cpus)
                    return
                self._restore(known, before)
                raise failure(error) from error

    def _write(self, known: Container, change: Change) -> Limits | None:
        """The kernel's values before, None if its cgroup is not ours to write."""
        cgroups = self._book.cgroups
        if cgroups is None or not known.group or known.state.state != RUNNING:
            return None
        before = cgroups.limits(known.group)
        cgroups.write(known.group, change)
        return before

    def _restore(self, known: Container, before: Limits) -> None:
        assert self._book.cgroups is not None
        quota, memory = before.cpu_quota_us, before.memory_bytes
        change = Change(
            before.cpu_shares,
            UNLIMITED if quota is None else quota,
            UNLIMITED if memory is None else memory,
            before.cpuset_cpus,
        )
        try:
            self._book.cgroups.write(known.group, change)
        except RuntimeFailure as error:
            log.warning("container %s: its cgroup cannot be put back: %s", known.state.id, error)

    async def _ask(self, known: Container, change: Change) -> None:
        request = api.UpdateContainerResourcesRequest(
            container_id=known.state.id, linux=amounts.update(change, known.kept.limits.cpu_period_us)
        )
        await self._book.client.ask("UpdateContainerResources", request, UPDATE_S)

    # --- a runtime that is behind
    def _merged(self, container_id: str, change: Change) -> Change:
        earlier = self._behind.get(container_id, Change())
        return Change(
            change.cpu_shares if change.cpu_shares is not None else earlier.cpu_shares,
            change.cpu_quota_us if change.cpu_quota_us is not None else earlier.cpu_quota_us,
            change.memory_bytes if change.memory_bytes is not None else earlier.memory_bytes,
            change.cpuset_cpus or earlier.cpuset_cpus,
        )

    def _catch_up_later(self, known: Container, change: Change) -> None:
        container_id, first = known.state.id, known.state.id not in self._behind
        self._behind[container_id] = self._merged(container_id, change)
        if first:
            self._book.tasks.start(self._catch_up(known), f"cri-update-{container_id}")

    async def _catch_up(self, known: Container) -> None:
        backoff, container_id = Backoff(0.5, 30.0), known.state.id
        while container_id in self._behind and known.state.state == RUNNING:
            await asyncio.sleep(backoff.next())
            async with known.lock:
                if (change := self._behind.get(container_id)) is None:
                    return
                try:
                    await self._ask(known, change)
                except CriError as error:
                    if error.unreached:
                        continue
                    log.warning("container %s: the runtime refuses its resources: %s", container_id, error.words)
                    self._book.emit("refused", known.pod_uid, container_id)
                self._behind.pop(container_id, None)
        self._behind.pop(container_id, None)

    # --- what is there now
    async def pod_limits(self, uid: str) -> Limits:
        pod, cgroups = self._book.pod(uid), self._book.cgroups
        if cgroups is None:
            return pod.config.limits
        try:
            # Every group that a runtime makes lists CPUs; no pod is restricted as a whole.
            return replace(cgroups.limits(pod.group), cpuset_cpus="")
        except Vanished:
            self._lose(pod)
            raise

    async def container_limits(self, container_id: str) -> Limits:
        known, cgroups = self._book.container(container_id), self._book.cgroups
        if cgroups is not None and known.group and known.state.state == RUNNING:
            actual = cgroups.limits(known.group)
            return actual if known.pinned else replace(actual, cpuset_cpus="")
        request = api.ContainerStatusRequest(container_id=container_id)
        try:
            answer = await self._book.client.ask("ContainerStatus", request)
        except CriError as error:
            raise failure(error) from error
        if not answer.status.HasField("resources") or not answer.status.resources.HasField("linux"):
            return known.kept.limits
        return amounts.limits_of(answer.status.resources.linux)

    def _lose(self, pod: Pod) -> None:
        """Somebody removed the pod's cgroup: it has to be stopped and made again."""
        if pod.alive and self._book.cgroups is not None and not self._book.cgroups.exists(pod.group):
            pod.alive = False
            self._book.emit("pod-gone", pod.config.uid)

    # --- usage
    async def pod_usage(self, uid: str) -> Usage:
        pod, cgroups = self._book.pod(uid), self._book.cgroups
        if cgroups is not None:
            return cgroups.usage(pod.group)
        found = [usage for _, usage in await self.usages(uid)]
        return Usage(
            time.time(),
            sum(one.cpu_nanos for one in found),
            sum(one.memory_bytes for one in found),
            sum(one.working_set_bytes for one in found),
            sum(one.rss_bytes for one in found),
        )

    async def container_usage(self, container_id: str) -> Usage:
        known, cgroups = self._book.container(container_id), self._book.cgroups
        state = known.state
        if state.state != RUNNING:
            # Its cgroup is gone with it; that it ran out of memory is what is left to know.
            return Usage(state.finished_at or time.time(), oom_kills=int(state.reason == "OOMKilled"))
        if cgroups is not None and known.group:
            return cgroups.usage(known.group)
        try:
            answer = await self._book.client.ask("ContainerStats", api.ContainerStatsRequest(container_id=container_id))
        except CriError as error:
            raise failure(error) from error
        return usage_of(answer.stats)

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        pod = self._book.pods.get(uid)
        if pod is None or not pod.alive:
            return []
        found = []
        for known in list(pod.containers.values()):
            if known.state.state == RUNNING:
                try:
                    found.append((known.state, await self.container_usage(known.state.id)))
                except RuntimeFailure:
                    # It ended this moment, or the runtime has no numbers: others are not held up by that.
                    continue
        return found

    async def memory_below(self, uid: str, container_id: str, threshold: int) -> None:
        group = self._book.container(container_id).group if container_id else self._book.pod(uid).group
        if self._book.cgroups is not None and group:
            try:
                await memory_below(self._book.cgroups, group, threshold)
            except OSError:
                return  # A group that is gone uses nothing.
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
    """What is missing is 0: a runtime need not fill in everything."""
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
