"""Applies the assignments of the static policy in the kernel.

No container ever shares a CPU that another has exclusively. CPUs are reassigned in this order: the assignment is on
disk; containers in the shared pool leave the CPUs; the container gets them. CPUs return in the opposite order: the
container leaves them (it ends, or is restricted to fewer), then the shared pool grows. Containers are created one at a
time, so that none appears on CPUs that were given away meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from podfit.agent.cpus.decide.assign import Short, claims
from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus, parse, text
from podfit.agent.cpus.exclusive import ExclusiveCpus
from podfit.agent.cpus.placed import Placed
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import EXITED, LimitsChange, NotFound, PodState, RuntimeFailure
from podfit.api.resize.states import Allocated, Desired
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks

log = logging.getLogger(__name__)


class StaticPolicy:
    def __init__(self, cpus: ExclusiveCpus, runtime: Runtime, tasks: Tasks, clock: Clock) -> None:
        self.cpus, self._runtime, self._tasks, self._clock = cpus, runtime, tasks, clock
        self._placed = cpus.placed
        self._lock = asyncio.Lock()
        self._spreading: asyncio.Task[None] | None = None
        self._again = False
        self._ready = False
        """Whether all running pods have claimed their CPUs. Until then a container without an assignment may be one
        whose assignment was lost: it keeps its cpuset."""

    def _own(self, placed: Placed) -> Cpus:
        """The CPUs assigned to the container."""
        return self.cpus.of(placed.uid).get(placed.name, NO_CPUS)

    # --- the assignment
    def open(self) -> None:
        self.cpus.open()

    def is_durable(self, uid: str) -> bool:
        return self.cpus.is_durable(uid)

    async def flush(self) -> None:
        await self.cpus.flush()

    def uids(self) -> set[str]:
        return self.cpus.uids()

    def claim(self, pod: Mapping[str, Any], sizes: Desired | Allocated, qos: str) -> Short | None:
        """Assigns CPUs to the pod's containers. A container whose assignment was lost keeps its CPUs if their number is
        right."""
        uid, wanted = pod["metadata"]["uid"], claims(pod, sizes, qos)
        counts = {claim.name: claim.count for claim in wanted}
        mine = [(key, placed) for key, placed in self._placed.items() if placed.uid == uid]
        short = self.cpus.claim(
            uid,
            wanted,
            {
                placed.name: placed.cpus
                for _, placed in mine
                if placed.exclusive or len(placed.cpus) == counts.get(placed.name)
            },
        )
        for key, placed in mine:
            if not placed.exclusive and placed.cpus <= self._own(placed):
                self._placed[key] = replace(placed, exclusive=True)
        return short

    def release(self, uid: str) -> None:
        """Releases the pod's CPUs once all its containers have exited."""
        self._forget(key for key, placed in self._placed.items() if placed.uid == uid)
        if self.cpus.release(uid):
            self._spread_soon()

    # --- after a restart
    async def find(self, state: PodState) -> None:
        uid = state.config.uid
        for container in state.containers:
            if container.state == EXITED:
                continue
            try:
                listed = (await self._runtime.container_limits(container.id)).cpuset_cpus
            except NotFound:
                continue
            cpus = parse(listed) if listed else self.cpus.topology.all
            own = self.cpus.of(uid).get(container.name, NO_CPUS)
            self._placed[container.id] = Placed(uid, container.name, cpus, bool(cpus & own))

    def ready(self) -> None:
        self._ready = True
        self._spread_soon()

    # --- container start
    async def create(self, uid: str, name: str, create: Callable[[str], Awaitable[str]]) -> str:
        """Runs `create` with the new container's list of CPUs, and returns the container's id."""
        async with self._lock:
            self._forget(key for key, placed in self._placed.items() if (placed.uid, placed.name) == (uid, name))
            own = self.cpus.of(uid).get(name)
            if own:
                await self._clear(uid, name, own)
            cpus = own or self.cpus.pool
            container_id = await create(text(cpus))
            self._placed[container_id] = Placed(uid, name, cpus, bool(own))
            return container_id

    # --- running containers
    async def apply(self, uid: str, state: PodState | None) -> None:
        """Applies the assigned CPUs to the pod's containers; raises RuntimeFailure if that fails."""
        if all(
            placed.cpus == self._own(placed)
            for placed in self._placed.values()
            if placed.uid == uid and self._concerned(placed)
        ):
            return
        async with self._lock:
            self._forget_ended(uid, state)
            mine = [key for key, placed in self._placed.items() if placed.uid == uid and self._concerned(placed)]
            for key in mine:
                placed = self._placed[key]
                if placed.exclusive and not placed.cpus <= self._own(placed):
                    rest = placed.cpus & self._own(placed)
                    await self._set(key, rest or self.cpus.pool, bool(rest))
            for key in [key for key in mine if key in self._placed]:
                placed = self._placed[key]
                if self._own(placed):
                    await self._clear(uid, placed.name, self._own(placed))
                    await self._set(key, self._own(placed), True)
        self._spread_soon()

    def _concerned(self, placed: Placed) -> bool:
        return placed.exclusive or bool(self._own(placed))

    async def _clear(self, uid: str, name: str, own: Cpus) -> None:
        """Returns when no other container runs on these CPUs."""
        for key, placed in list(self._placed.items()):
            if not placed.cpus & own or (placed.uid, placed.name) == (uid, name):
                continue
            if not placed.exclusive:
                await self._set(key, self.cpus.pool, False)
            elif await self._ended(key):
                self._forget([key])
            else:
                raise RuntimeFailure(f"CPUs {text(placed.cpus & own)} are still in use by container {placed.name}")

    async def _set(self, container_id: str, cpus: Cpus, exclusive: bool) -> None:
        placed = self._placed[container_id]
        if placed.cpus != cpus:
            try:
                await self._runtime.update_container(container_id, LimitsChange(cpuset_cpus=text(cpus)))
            except RuntimeFailure:
                if not await self._ended(container_id):
                    raise
                self._forget([container_id])
                return
        if container_id in self._placed:  # the pod may have been released in the meantime
            self._placed[container_id] = replace(placed, cpus=cpus, exclusive=exclusive)

    async def _ended(self, container_id: str) -> bool:
        found = await self._runtime.container(container_id)
        return found is None or found.state == EXITED

    def _forget_ended(self, uid: str, state: PodState | None) -> None:
        left = (
            {container.id for container in state.containers if container.state != EXITED}
            if state is not None
            else set()
        )
        self._forget(key for key, placed in self._placed.items() if placed.uid == uid and key not in left)

    def _forget(self, container_ids: Iterable[str]) -> None:
        for container_id in list(container_ids):
            self._placed.pop(container_id, None)

    # --- the shared pool grows
    def _spread_soon(self) -> None:
        """Lets the containers of the shared pool use all of it."""
        self._again = True
        if self._ready and (self._spreading is None or self._spreading.done()):
            self._spreading = self._tasks.start(self._spread(), "shared-cpus")

    async def _spread(self) -> None:
        backoff = Backoff(1.0, 60.0)
        while self._again:
            self._again = False
            try:
                await self.cpus.flush()
                for key in list(self._placed):
                    async with self._lock:
                        await self._spread_to(key)
            except (RuntimeFailure, OSError) as error:
                log.warning("the shared CPUs could not be applied: %s; retrying", error)
                self._again = True
                await self._clock.sleep(backoff.next())

    async def _spread_to(self, container_id: str) -> None:
        placed = self._placed.get(container_id)
        if placed is not None and not self._concerned(placed):
            await self._set(container_id, self.cpus.pool, False)
