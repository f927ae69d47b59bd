"""Runs squeeze probes on one container of the node at a time, a while after it started. memory.high is always reset.

Only where the kernel has memory.high and reports stalls (cgroup v2); elsewhere nothing happens.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RUNNING, RuntimeFailure
from podfit.agent.squeeze import decide
from podfit.agent.squeeze.decide import Finished, MemoryReading
from podfit.api.pods.reflex import asked_for as has_reflex
from podfit.api.pods.reflex import threshold
from podfit.api.pods.squeeze import asked_for, result
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC, Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, rfc3339
from podfit.kit.concurrency.tasks import Tasks

log = logging.getLogger(__name__)

SETTLE_S, STEP_S, AGAIN_S = 60.0, 10.0, 6 * 3600.0
"""After its start, at each step, and until the next probe of a container."""


class Squeeze:
    def __init__(self, client: Client, runtime: Runtime, clock: Clock, tasks: Tasks) -> None:
        self._client, self._runtime, self._clock, self._tasks = client, runtime, clock, tasks
        self._turn = asyncio.Semaphore(1)
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}
        """The tasks of probes, by pod and container ID."""
        self._found: dict[str, dict[str, int]] = {}

    def follow(self, record: PodRecord) -> None:
        """Called after each pass over a pod: starts probes for its running containers and cancels those of others."""
        wanted = not record.terminal and record.termination is None and asked_for(record.pod)
        running = (
            {container.id: container for container in record.state.containers if container.state == RUNNING}
            if record.state
            else {}
        )
        for key in [key for key in self._under_way if key[0] == record.uid and not (wanted and key[1] in running)]:
            self._under_way.pop(key).cancel()
        if not wanted:
            self._found.pop(record.uid, None)
            return
        for id, container in running.items():
            key = record.uid, id
            if key not in self._under_way:
                self._under_way[key] = self._tasks.start(self._probes(record, container.name, id), f"squeeze-{id}")

    async def _probes(self, record: PodRecord, name: str, id: str) -> None:
        try:
            if await self._runtime.memory_stall(id) is None:
                return
            await self._clock.sleep(SETTLE_S)
            while True:
                async with self._turn:
                    done = await self._probe(record, id)
                record.story.add("squeezed", f"{name}: {done.why}", memory_bytes=done.enough)
                self._found.setdefault(record.uid, {})[name] = done.enough
                await self._report(record)
                await self._clock.sleep(AGAIN_S)
        except RuntimeFailure as error:
            log.debug("squeeze probe of %s: %s", record.name, error)

    async def _probe(self, record: PodRecord, id: str) -> Finished:
        found = decide.begin(await self._read(id))
        try:
            while not isinstance(found, Finished):
                await self._runtime.hold_memory(id, found.probe.high)
                await self._clock.sleep(STEP_S)
                found = decide.step(found.probe, await self._read(id))
        finally:
            with suppress(RuntimeFailure):
                await self._lift(record, id)
        return found

    async def _lift(self, record: PodRecord, id: str) -> None:
        """Restores the previous memory.high: the reflex's value, or none."""
        limit = (await self._runtime.container_limits(id)).memory_bytes if has_reflex(record.pod) else None
        await self._runtime.hold_memory(id, threshold(limit) if limit else None)

    async def _read(self, id: str) -> MemoryReading:
        usage = await self._runtime.container_usage(id)
        return MemoryReading(usage.memory_bytes, await self._runtime.memory_stall(id) or 0, self._clock.monotonic())

    async def _report(self, record: PodRecord) -> None:
        change = result(self._found[record.uid], rfc3339(self._clock.now()))
        meta = record.api_object["metadata"]
        change["metadata"]["uid"] = meta["uid"]
        try:
            await self._client.patch(POD, record.namespace, meta["name"], change, "status", STRATEGIC)
        except (ApiError, Unreachable) as error:
            log.warning("the working set of pod %s/%s cannot be reported: %s", record.namespace, record.name, error)
