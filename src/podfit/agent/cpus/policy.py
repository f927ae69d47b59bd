"""The interface of a CPU policy, and the policy without restrictions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from podfit.agent.cpus import checkpoint
from podfit.agent.cpus.decide.assign import Short
from podfit.agent.cpus.decide.sets import text
from podfit.agent.cpus.decide.state import NONE, CpuState
from podfit.agent.cpus.decide.topology import Topology
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import EXITED, LimitsChange, NotFound, PodState
from podfit.api.resize.states import Allocated, Desired


class CpuPolicy(Protocol):
    def open(self) -> None:
        """Reads the state of an earlier agent from disk. Raises UnusableState if it does not match this policy."""

    async def find(self, state: PodState) -> None:
        """Reads the cpusets of containers that an earlier agent started."""

    def ready(self) -> None:
        """Called when all running pods have claimed their CPUs."""

    def claim(self, pod: Mapping[str, Any], sizes: Desired | Allocated, qos: str) -> Short | None:
        """Assigns CPUs to the pod's containers; None on success or if none are needed."""

    def is_durable(self, uid: str) -> bool: ...

    async def flush(self) -> None: ...

    def uids(self) -> set[str]:
        """The pods with exclusive CPUs."""

    async def create(self, uid: str, name: str, create: Callable[[str], Awaitable[str]]) -> str: ...

    async def apply(self, uid: str, state: PodState | None) -> None: ...

    def release(self, uid: str) -> None: ...


class NoPolicy:
    """Lets every container run on every CPU."""

    def __init__(self, path: Path | None, runtime: Runtime, topology: Callable[[], Topology], durable: bool) -> None:
        self._path, self._runtime, self._topology, self._durable = path, runtime, topology, durable

    def open(self) -> None:
        if self._path is not None and checkpoint.load(self._path, NONE) is None:
            checkpoint.save(self._path, CpuState(NONE), self._durable)

    async def find(self, state: PodState) -> None:
        """Removes restrictions of an earlier agent with the static policy."""
        for container in state.containers:
            if container.state == EXITED:
                continue
            try:
                if (await self._runtime.container_limits(container.id)).cpuset_cpus:
                    everywhere = LimitsChange(cpuset_cpus=text(self._topology().all))
                    await self._runtime.update_container(container.id, everywhere)
            except NotFound:
                continue

    def ready(self) -> None:
        return

    def claim(self, pod: Mapping[str, Any], sizes: Desired | Allocated, qos: str) -> Short | None:
        return None

    def is_durable(self, uid: str) -> bool:
        return True

    async def flush(self) -> None:
        return

    def uids(self) -> set[str]:
        return set()

    async def create(self, uid: str, name: str, create: Callable[[str], Awaitable[str]]) -> str:
        return await create("")

    async def apply(self, uid: str, state: PodState | None) -> None:
        return

    def release(self, uid: str) -> None:
        return
