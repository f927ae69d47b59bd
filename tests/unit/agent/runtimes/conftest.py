"""A process runtime for each test, with its own folder and cgroups, removed afterwards."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.process.runtime import ProcessRuntime
from podfit.agent.runtimes.process.support import check_support
from podfit.agent.runtimes.values import ContainerConfig, ContainerState, Limits, PodConfig


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = f"/podfit-unit-{uuid.uuid4().hex[:8]}"
        self.runtime = self.make()

    def make(self, **more: Any) -> ProcessRuntime:
        return ProcessRuntime(self.folder / "data", cgroup_root=self.root, **more)

    async def pod(self, **more: Any) -> str:
        uid = str(uuid.uuid4())
        limits = more.pop("limits", Limits(cpu_shares=256))
        hostname = more.pop("hostname", "web-0")
        await self.runtime.run_pod(PodConfig(uid, "web", "default", "Burstable", limits, hostname, self.folder, **more))
        return uid

    async def start(self, uid: str, *command: str, name: str = "c1", **more: Any) -> str:
        config = ContainerConfig(
            name=name,
            attempt=0,
            image=more.pop("image", "host"),
            command=command,
            args=more.pop("args", ()),
            environment=more.pop("environment", {}),
            working_dir=more.pop("working_dir", ""),
            mounts=more.pop("mounts", ()),
            limits=more.pop("limits", Limits(cpu_shares=256)),
            log_file=self.log_file(uid, name),
            **more,
        )
        cid = await self.runtime.create_container(uid, config)
        await self.runtime.start_container(cid)
        return cid

    async def says(self, *command: str, pod: dict[str, Any] | None = None, **more: Any) -> str:
        """Runs a container to its end and returns its output."""
        uid = await self.pod(**(pod or {}))
        await self.ended(await self.start(uid, *command, **more))
        return self.text(uid)

    async def ended(self, container_id: str) -> ContainerState:
        async with asyncio.timeout(30):
            await self.runtime._until_ended(container_id)
        state = await self.runtime.container(container_id)
        assert state is not None
        return state

    def log_file(self, uid: str, name: str = "c1") -> Path:
        return self.folder / "logs" / uid / f"{name}.log"

    def text(self, uid: str, name: str = "c1") -> str:
        file = self.log_file(uid, name)
        rows = file.read_text().splitlines() if file.exists() else []
        return "\n".join(re.sub(r"^\S+ \S+ [FP] ", "", row) for row in rows)

    async def said(self, uid: str, part: str, name: str = "c1") -> None:
        async with asyncio.timeout(30):
            while part not in self.text(uid, name):
                await asyncio.sleep(0.005)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    missing = check_support()
    if missing:
        pytest.skip("; ".join(missing))
    made = Machine(tmp_path)
    await made.runtime.open()
    yield made
    await made.runtime.purge()
    await made.runtime.close()
