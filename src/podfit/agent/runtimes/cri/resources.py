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

from podfit.cri import CriError
from podfit.cri import api_pb2 as api
from podfit.kit.backoff import Backoff

from ..base import RUNNING, UNLIMITED, Change, Limits, RuntimeFailure
from ..cgroups import Vanished
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
                self._book.lose(pod)
                raise
        if self._pod_updates and pod.alive:
            await self._notify_pod(pod, change)

    async def _notify_pod(self, pod: Pod, change: Change) -> None:
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
