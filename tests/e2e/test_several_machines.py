"""The components of a cluster, started with the commands that docs/operate.md gives for several machines."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.client.kubeconfig import load
from podfit.client.rest import Client
from tests.support.cluster.expect import becomes

GUIDE = Path(__file__).parents[2] / "docs" / "operate.md"
PODFIT = Path(sys.executable).with_name("podfit")
PATIENCE_S = 60.0
ACCOUNT = kind_named("ServiceAccount")


def commands() -> list[str]:
    """Every `podfit …` line of the section, in order."""
    section = GUIDE.read_text().split("## Several machines\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("podfit ")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Machines:
    """Runs all of them on this machine, with addresses and folders of the test's own instead of those of the guide."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self.token, self.running = "", list[asyncio.subprocess.Process]()

    @property
    def cluster(self) -> Path:
        return self._folder / "first"

    def words(self, line: str) -> list[str]:
        for written, meant in (
            ("10.0.0.1:6443", f"127.0.0.1:{self._port}"),
            ("10.0.0.2", "127.0.0.1"),
            ("/var/lib/podfit", str(self.cluster)),
            (" ca.crt", f" {self.cluster}/pki/ca.crt"),
            ("ID.SECRET", self.token),
        ):
            line = line.replace(written, meant)
        return [str(PODFIT), *shlex.split(line)[1:]]

    async def start(self, line: str, *more: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self.words(line), *more, stdout=pipe, stderr=pipe, cwd=self._folder, env={**os.environ, "KUBECONFIG": ""}
        )
        self.running.append(process)
        return process

    async def ready(self, line: str, *more: str) -> None:
        process = await self.start(line, *more)
        await said(process.stdout, "ready ")

    async def join_with_token(self, line: str) -> None:
        """The printed command for the other machine, with the token in it."""
        printed = await said((await self.start(line)).stdout, "podfit agent ")
        self.token = shlex.split(printed)[shlex.split(printed).index("--token") + 1]

    async def stop(self) -> None:
        for process in reversed(self.running):
            if process.returncode is None:
                process.terminate()
        for process in self.running:
            await asyncio.wait_for(process.communicate(), PATIENCE_S)


async def said(stream: asyncio.StreamReader | None, start: str) -> str:
    """The first line that contains this text."""
    assert stream is not None
    heard = ""
    async with asyncio.timeout(PATIENCE_S):
        while line := (await stream.readline()).decode():
            heard += line
            if start in line:
                return line
    raise AssertionError(f"ended without {start!r}: {heard}")


@asynccontextmanager
async def machines(folder: Path) -> AsyncIterator[Machines]:
    made = Machines(folder)
    try:
        yield made
    finally:
        await made.stop()


def is_ready(node: Object | None) -> bool:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def test_the_guide_for_several_machines_can_be_typed_in(tmp_path: Path) -> None:
    apiserver, controllers, scheduler, token, agent = commands()
    async with machines(tmp_path) as all_of_them:
        await all_of_them.ready(apiserver)
        await all_of_them.start(controllers)
        await all_of_them.start(scheduler)
        await all_of_them.join_with_token(token)
        own = ("--runtime", "fake", "--data-dir", str(tmp_path / "second"))
        await all_of_them.ready(agent, *own)
        client = Client(load(str(all_of_them.cluster / "admin.kubeconfig")).transport("test"))
        try:
            node = await becomes(client, NODE, "", "n2", is_ready)
            assert node is not None
            assert {"type": "InternalIP", "address": "127.0.0.1"} in node["status"]["addresses"]
            await becomes(client, ACCOUNT, "default", "default", lambda account: account is not None)
            container = {"name": "c", "image": "host", "command": ["sleep", "1d"]}
            body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
            await client.create(POD, body, "default")
            pod = await becomes(
                client, POD, "default", "p", lambda obj: bool(obj and obj["status"].get("phase") == "Running")
            )
            assert pod is not None and pod["spec"]["nodeName"] == "n2"
        finally:
            await client.close()


async def test_an_agent_says_what_it_waits_for(tmp_path: Path) -> None:
    apiserver, controllers, _, token, agent = commands()
    own = ("--runtime", "fake", "--data-dir", str(tmp_path / "second"))
    async with machines(tmp_path) as all_of_them:
        await all_of_them.ready(apiserver)
        await all_of_them.join_with_token(token)
        joining = await all_of_them.start(agent, *own)
        assert "is not approved" in await said(joining.stderr, "waiting for the certificate of node n2")
        unsigned = await all_of_them.start(controllers.split(" --cluster-signing")[0])
        assert "--cluster-signing-cert-file" in await said(unsigned.stderr, "is approved, but")
        await said(joining.stderr, "is approved but not signed")
        await all_of_them.start(controllers)
        await said(joining.stdout, "ready node n2")
