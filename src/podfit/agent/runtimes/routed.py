"""Several runtimes as one: a pod's RuntimeClass selects which of them runs it.

The handler's name selects one of the named endpoints; every other handler is passed to the default runtime. Calls for a
pod or container go to the runtime that has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from podfit.agent.runtimes.base import ByteStream, ExecStream, Runtime
from podfit.agent.runtimes.confirmations import Confirmations
from podfit.agent.runtimes.values import (
    ContainerConfig,
    ContainerState,
    Handler,
    ImageState,
    Limits,
    LimitsChange,
    NotFound,
    PodConfig,
    PodState,
    RuntimeEvent,
    Usage,
)
from podfit.images.registries.credentials import Credentials
from podfit.kit.concurrency.tasks import Tasks


class RoutedRuntime:
    def __init__(self, default: Runtime, others: Mapping[str, Runtime]) -> None:
        self._default, self._others = default, others
        self._all: list[Runtime] = [default, *others.values()]
        self._tasks = Tasks("runtimes")
        self.confirmations = Confirmations()
        for runtime in self._all:
            runtime.confirmations = self.confirmations
        self.name, self.version = default.name, default.version

    @property
    def handlers(self) -> tuple[Handler, ...]:
        named = tuple(Handler(name) for name in self._others)
        return (*(handler for handler in self._default.handlers if handler.name not in self._others), *named)

    @property
    def in_memory(self) -> bool:
        return self._default.in_memory

    @property
    def separate(self) -> bool:
        return self._default.separate

    @property
    def local_profiles(self) -> bool:
        return all(runtime.local_profiles for runtime in self._all)

    async def problem(self) -> str:
        """The default runtime's problem: if another runtime is down, only its own pods wait."""
        return await self._default.problem()

    async def open(self) -> None:
        for runtime in self._all:
            await runtime.open()
        self.name, self.version = self._default.name, self._default.version

    async def close(self) -> None:
        await self._tasks.stop()
        for runtime in self._all:
            await runtime.close()

    async def purge(self) -> None:
        for runtime in self._all:
            await runtime.purge()

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        queue: asyncio.Queue[RuntimeEvent] = asyncio.Queue()

        async def read(runtime: Runtime) -> None:
            async for event in runtime.events():
                queue.put_nowait(event)

        for runtime in self._all:
            self._tasks.start(read(runtime), f"events-{runtime.name}")
        while True:
            yield await queue.get()

    def migrations(self, handler: str = "") -> Any:
        """The migrations of these pods' runtime; None if it cannot migrate."""
        found = getattr(self._others.get(handler, self._default), "migrations", None)
        return found(handler) if found is not None else None

    # --- selection
    async def _of_pod(self, uid: str) -> Runtime:
        for runtime in self._all:
            if await runtime.pod(uid) is not None:
                return runtime
        raise NotFound(f"pod {uid} not found")

    async def _of_container(self, container_id: str) -> Runtime:
        for runtime in self._all:
            if await runtime.container(container_id) is not None:
                return runtime
        raise NotFound(f"container {container_id} not found")

    async def _if_pod(self, uid: str, method: str) -> Any:
        for runtime in self._all:
            if await runtime.pod(uid) is not None:
                return await getattr(runtime, method)(uid)
        return await getattr(self._default, method)(uid)

    # --- pods
    async def run_pod(self, config: PodConfig) -> None:
        await self._others.get(config.handler, self._default).run_pod(config)

    async def stop_pod(self, uid: str) -> None:
        await self._if_pod(uid, "stop_pod")

    async def remove_pod(self, uid: str) -> None:
        await self._if_pod(uid, "remove_pod")

    async def pods(self) -> list[PodState]:
        return [pod for runtime in self._all for pod in await runtime.pods()]

    async def pod(self, uid: str) -> PodState | None:
        for runtime in self._all:
            if (found := await runtime.pod(uid)) is not None:
                return found
        return None

    # --- containers
    async def create_container(self, uid: str, config: ContainerConfig) -> str:
        return await (await self._of_pod(uid)).create_container(uid, config)

    async def start_container(self, container_id: str) -> None:
        await (await self._of_container(container_id)).start_container(container_id)

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        for runtime in self._all:
            await runtime.stop_container(container_id, grace_s)

    async def remove_container(self, container_id: str) -> None:
        for runtime in self._all:
            await runtime.remove_container(container_id)

    async def container(self, container_id: str) -> ContainerState | None:
        for runtime in self._all:
            if (found := await runtime.container(container_id)) is not None:
                return found
        return None

    # --- resources
    async def update_pod(self, uid: str, change: LimitsChange) -> None:
        await (await self._of_pod(uid)).update_pod(uid, change)

    async def update_container(self, container_id: str, change: LimitsChange) -> None:
        await (await self._of_container(container_id)).update_container(container_id, change)

    async def update_all(self, uid: str, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        return await (await self._of_pod(uid)).update_all(uid, changes)

    async def set_power(self, container_id: str, power: str, grace_s: float) -> None:
        await (await self._of_container(container_id)).set_power(container_id, power, grace_s)

    async def pod_limits(self, uid: str) -> Limits:
        return await (await self._of_pod(uid)).pod_limits(uid)

    async def container_limits(self, container_id: str) -> Limits:
        return await (await self._of_container(container_id)).container_limits(container_id)

    async def pod_usage(self, uid: str) -> Usage:
        return await (await self._of_pod(uid)).pod_usage(uid)

    async def container_usage(self, container_id: str) -> Usage:
        return await (await self._of_container(container_id)).container_usage(container_id)

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        found: list[tuple[ContainerState, Usage]] = await self._if_pod(uid, "usages")
        return found

    async def memory_above(self, uid: str, container_id: str, bytes: int) -> None:
        await (await self._of_pod(uid)).memory_above(uid, container_id, bytes)

    async def memory_stall(self, container_id: str) -> int | None:
        return await (await self._of_container(container_id)).memory_stall(container_id)

    async def hold_memory(self, container_id: str, bytes: int | None) -> None:
        await (await self._of_container(container_id)).hold_memory(container_id, bytes)

    async def memory_below(self, uid: str, container_id: str, bytes: int) -> None:
        await (await self._of_pod(uid)).memory_below(uid, container_id, bytes)

    # --- streams
    async def exec(self, container_id: str, command: list[str], tty: bool = False, stdin: bool = False) -> ExecStream:
        return await (await self._of_container(container_id)).exec(container_id, command, tty, stdin)

    async def exec_sync(
        self, container_id: str, command: list[str], timeout_s: float = 0.0
    ) -> tuple[int, bytes, bytes]:
        return await (await self._of_container(container_id)).exec_sync(container_id, command, timeout_s)

    async def attach(self, container_id: str, stdin: bool = False) -> ExecStream:
        return await (await self._of_container(container_id)).attach(container_id, stdin)

    async def connect(self, uid: str, port: int) -> ByteStream:
        return await (await self._of_pod(uid)).connect(uid, port)

    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        for runtime in self._all:
            await runtime.redirect(address, port, target, target_port)

    def use_range(self, pod_range: str) -> None:
        for runtime in self._all:
            runtime.use_range(pod_range)

    # --- images and files
    async def image_status(self, image: str, handler: str = "") -> ImageState | None:
        return await self._others.get(handler, self._default).image_status(image, handler)

    async def pull_image(self, image: str, credentials: Credentials | None = None, handler: str = "") -> str:
        return await self._others.get(handler, self._default).pull_image(image, credentials, handler)

    async def images(self) -> list[ImageState]:
        return [image for runtime in self._all for image in await runtime.images()]

    async def remove_image(self, image_id: str) -> None:
        for runtime in self._all:
            await runtime.remove_image(image_id)

    async def images_folder(self) -> Path | None:
        return await self._default.images_folder()

    async def writable_layer(self, container_id: str) -> Path | None:
        return await (await self._of_container(container_id)).writable_layer(container_id)

    async def pod_files(self, uid: str) -> list[Path]:
        found: list[Path] = await self._if_pod(uid, "pod_files")
        return found

    async def reclaim_disk(self) -> None:
        for runtime in self._all:
            await runtime.reclaim_disk()
