"""Watches containers whose pods allow the memory reflex, and reports in the pod's status as soon as the kernel signals
that one is near its limit.

The condition is written by a separate patch: a pass over the pod would be too late for a leak.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from podfit.agent.pods.events import WARNING, Events
from podfit.agent.pods.record import PodRecord
from podfit.agent.reflex import decide
from podfit.agent.reflex.decide import Finding, WatchedContainer
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RUNNING, RuntimeFailure
from podfit.api.pods.reflex import asked_for, mebibytes, threshold
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC, Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, rfc3339
from podfit.kit.concurrency.tasks import Tasks

log = logging.getLogger(__name__)

RAISE_TIMEOUT_S = 2.0
"""If the limit is not raised within this time, the condition reports that."""
CALM_SHARE = 0.9
"""A container stays near its limit until its usage is below this fraction of the threshold."""


@dataclass(slots=True)
class _Held:
    container: WatchedContainer
    task: asyncio.Task[None]
    near: bool = False


class Reflex:
    def __init__(self, client: Client, runtime: Runtime, events: Events, clock: Clock, tasks: Tasks) -> None:
        self._client, self._runtime, self._events = client, runtime, events
        self._clock, self._tasks = clock, tasks
        self._held: dict[str, dict[str, _Held]] = {}

    async def follow(self, record: PodRecord) -> None:
        """Called after each pass over a pod: watches the running containers under their current limits."""
        wanted = not record.terminal and record.termination is None and asked_for(record.pod)
        if not wanted:
            if record.uid in self._held:
                await self._stop_watching(record.uid, lift=record.termination is None)
            return
        held = self._held.setdefault(record.uid, {})
        running = (
            {state.name: state for state in record.state.containers if state.state == RUNNING} if record.state else {}
        )
        for name in [name for name in held if name not in running]:
            held.pop(name).task.cancel()
        for name, container in running.items():
            try:
                limit = (await self._runtime.container_limits(container.id)).memory_bytes
            except RuntimeFailure:
                continue
            before = held.get(name)
            if before is not None and (before.container.id, before.container.limit) == (container.id, limit or 0):
                continue
            await self._begin(record, name, container.id, limit, before)

    async def _begin(self, record: PodRecord, name: str, id: str, limit: int | None, before: _Held | None) -> None:
        held = self._held[record.uid]
        if before is not None:
            before.task.cancel()
            held.pop(name)
        if not limit:
            return
        container = (
            before.container.next(id, limit, before.near) if before is not None else WatchedContainer(name, id, limit)
        )
        was_near = before is not None and before.near and before.container.id == id
        task = self._tasks.start(self._watch(record, container, was_near), f"reflex-{record.uid}-{name}")
        held[name] = _Held(container, task, was_near)

    async def _stop_watching(self, uid: str, lift: bool) -> None:
        for held in self._held.pop(uid, {}).values():
            held.task.cancel()
            if lift:
                try:
                    await self._runtime.hold_memory(held.container.id, None)
                except RuntimeFailure:
                    continue

    # --- one container

    async def _watch(self, record: PodRecord, container: WatchedContainer, was_near: bool) -> None:
        try:
            while True:
                await self._runtime.hold_memory(container.id, threshold(container.limit))
                if was_near and await self._used(container) < threshold(container.limit):
                    self._set_near(record, container, False)
                    await self._report(record, decide.calm(container))
                await self._runtime.memory_above(record.uid, container.id, threshold(container.limit))
                used = await self._used(container)
                self._set_near(record, container, True)
                await self._report(record, decide.near(container, used))
                self._announce(record, container, used)
                await self._clock.sleep(RAISE_TIMEOUT_S)
                await self._stuck(record, container)
                await self._runtime.memory_below(record.uid, container.id, int(threshold(container.limit) * CALM_SHARE))
                was_near = True
        except RuntimeFailure as error:
            # The container exited: its successor is watched after the next pass.
            log.debug("reflex of %s: %s", record.name, error)

    async def _stuck(self, record: PodRecord, container: WatchedContainer) -> None:
        used = await self._used(container)
        if used < threshold(container.limit):
            return
        # The limit was not raised: the hold is removed, and the OOM killer applies as usual.
        await self._runtime.hold_memory(container.id, None)
        found = decide.stuck(container, used)
        await self._report(record, found)
        record.story.add("limit not raised", found.message, container=container.name)
        self._events.emit(record.pod, WARNING, found.reason, found.message, container.name)

    def _announce(self, record: PodRecord, container: WatchedContainer, used: int) -> None:
        record.story.add("near its limit", f"container {container.name}", memory_bytes=container.limit, used=used)
        amounts = f"{mebibytes(used)} of {mebibytes(container.limit)}"
        words = f"Container {container.name} uses {amounts} of memory"
        self._events.emit(record.pod, WARNING, "MemoryNearLimit", words, container.name)

    async def _used(self, container: WatchedContainer) -> int:
        usage = await self._runtime.container_usage(container.id)
        return max(usage.memory_bytes - usage.cache_bytes, 0)

    async def _report(self, record: PodRecord, found: Finding) -> None:
        meta = record.api_object["metadata"]
        change = found.change(rfc3339(self._clock.now()))
        change["metadata"]["uid"] = meta["uid"]
        try:
            await self._client.patch(POD, record.namespace, meta["name"], change, "status", STRATEGIC)
        except (ApiError, Unreachable) as error:
            log.warning("the reflex of pod %s/%s cannot be reported: %s", record.namespace, record.name, error)

    def _set_near(self, record: PodRecord, container: WatchedContainer, near: bool) -> None:
        held = self._held.get(record.uid, {}).get(container.name)
        if held is not None and held.container is container:
            held.near = near
