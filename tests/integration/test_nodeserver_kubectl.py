"""Plain kubectl against a node: logs, exec, cp and port-forward, with fake containers and with real processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole

from podfit.agent.config import AgentConfig
from podfit.agent.runtimes.process.runtime import ProcessRuntime
from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE, POD
from podfit.client.kubeconfig import load
from podfit.compose import agent_alone
from podfit.compose_runtimes import RuntimeSettings

PATIENCE_S = 60.0
KUBECTL = shutil.which("kubectl")
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")


class Kubectl:
    def __init__(self, whole: Whole, **environment: str) -> None:
        self.environment = {**os.environ, "KUBECONFIG": str(whole.up.kubeconfig), **environment}

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        assert KUBECTL is not None
        return await asyncio.create_subprocess_exec(
            KUBECTL, *words, stdin=pipe, stdout=pipe, stderr=pipe, env=self.environment
        )

    async def __call__(self, *words: str, given: bytes = b"") -> tuple[int, str, str]:
        process = await self.start(*words)
        out, errors = await asyncio.wait_for(process.communicate(given), PATIENCE_S)
        return process.returncode or 0, out.decode(), errors.decode()


def pod(command: list[str], node: str = "n1") -> Object:
    container = {"name": "c", "image": "host", "command": command}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0},
    }


async def run(whole: Whole, command: list[str], node: str = "n1") -> Object:
    await whole.client.create(POD, pod(command, node))

    def runs(obj: Object | None) -> bool:
        states = ((obj or {}).get("status") or {}).get("containerStatuses") or [{}]
        return "running" in (states[0].get("state") or {})

    return await becomes(whole.client, POD, "default", "p", runs)


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as one:
        yield one


async def test_logs_exec_and_exit_codes(whole: Whole) -> None:
    await run(whole, ["sh", "-c", "echo hello; sleep 1d"])
    kubectl = Kubectl(whole)
    assert await kubectl("logs", "p") == (0, "hello\n", "")
    assert await kubectl("exec", "-i", "p", "--", "cat", given=b"through and back") == (0, "through and back", "")
    code, _, errors = await kubectl("exec", "p", "--", "sh", "-c", "exit 3")
    assert (code, errors) == (3, "command terminated with exit code 3\n")
    code, _, errors = await kubectl("exec", "p", "--", "/nonexistent")
    assert code == 1
    assert "error executing command in container" in errors


async def test_exec_and_attach_over_spdy(whole: Whole) -> None:
    await run(whole, ["sh", "-c", "echo hello; sleep 1d"])
    kubectl = Kubectl(whole, **SPDY)
    assert await kubectl("exec", "-i", "p", "--", "cat", given=b"through and back" * 10000) == (
        0,
        "through and back" * 10000,
        "",
    )
    code, _, errors = await kubectl("exec", "p", "--", "sh", "-c", "exit 3")
    assert (code, errors) == (3, "command terminated with exit code 3\n")
    code, _, errors = await kubectl("exec", "p", "-c", "nobody", "--", "true")
    assert (code, errors) == (1, "Error from server (BadRequest): container nobody is not valid for pod p\n")


@pytest.mark.parametrize("environment", [{}, SPDY], ids=["websocket", "spdy"])
async def test_a_command_that_a_fake_container_cannot_run_fails_at_once(
    whole: Whole, environment: dict[str, str], tmp_path: Path
) -> None:
    await run(whole, ["sleep", "1d"])
    kubectl = Kubectl(whole, **environment)
    missing = 'exec: "{}": stat {}: no such file or directory (the fake runtime runs no programs'
    for words, program in (
        (("exec", "p", "--", "ls"), "ls"),
        (("exec", "-i", "p", "--", "sh"), "sh"),
        (("cp", "p:/etc/hosts", str(tmp_path / "copied")), "tar"),
    ):
        code, _, errors = await kubectl(*words)
        assert code == 1, words
        assert "error executing command in container" in errors and missing.format(program, program) in errors


async def test_input_for_a_fake_container_is_rejected_at_once(whole: Whole) -> None:
    """kubectl reports the reason and follows the log instead."""
    await run(whole, ["sleep", "1d"])
    for words in (
        ("run", "q", "-i", "--image=host", "--restart=Never", "--", "sh"),
        ("debug", "p", "-i", "--image=host", "--", "sh"),
    ):
        process = await Kubectl(whole).start(*words)
        assert process.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                line = b""
                while b"containers of the fake runtime do not read stdin" not in line:
                    line = await process.stderr.readline()
                    assert line, "kubectl ended without a word"
        finally:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("environment", [{}, SPDY], ids=["websocket", "spdy"])
async def test_port_forward(whole: Whole, environment: dict[str, str]) -> None:
    made = await run(whole, ["sleep", "1d"])
    runtime: Any = whole.up.agents[0].runtime
    runtime.state.ports[made["metadata"]["uid"], 80] = lambda data: data.upper()
    process = await Kubectl(whole, **environment).start("port-forward", "pod/p", ":80", "--address", "127.0.0.1")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            reported = (await process.stdout.readline()).decode()
            port = int(reported.split("127.0.0.1:")[1].split(" ")[0])
            for text in (b"one", b"two"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(text)
                assert await reader.readexactly(3) == text.upper()
                writer.close()
    finally:
        process.terminate()
        await process.communicate()


async def test_an_agent_of_its_own_process_serves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node joins with a kubeconfig and serves with a self-signed certificate."""
    async with Whole(tmp_path / "server", nodes=0) as whole:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            # The default port is in use: the agent takes another one and reports it.
            port = taken.getsockname()[1]
            monkeypatch.setattr("podfit.agent.config.DEFAULT_PORT", port)
            config = AgentConfig("n9", tmp_path / "n9", address="127.0.0.1", port=port)
            agent = await agent_alone(load(str(whole.up.kubeconfig)), RuntimeSettings("fake"), config)
        try:
            await becomes(whole.client, NODE, "", "n9", lambda node: node is not None)
            await asyncio.wait_for(agent.synced.wait(), PATIENCE_S)
            await run(whole, ["sh", "-c", "echo from afar; sleep 1d"], "n9")
            assert await Kubectl(whole)("logs", "p") == (0, "from afar\n", "")
        finally:
            await agent.stop()
            await agent.client.close()


# --- real processes ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def real(folder: Path) -> AsyncIterator[Whole]:
    async with Whole(folder, runtime="process", stop_pods=True) as whole:
        try:
            yield whole
        finally:
            runtime = whole.up.agents[0].runtime
            assert isinstance(runtime, ProcessRuntime)
            for state in await runtime.pods():
                await runtime.stop_pod(state.config.uid)
            await whole.up.agents[0].stop()
            whole.up.agents.clear()
            await runtime.open()
            await runtime.purge()
            await runtime.close()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root and writable cgroups")
async def test_real_processes_log_take_commands_and_files(tmp_path: Path) -> None:
    async with real(tmp_path / "d") as whole:
        await run(whole, ["sh", "-c", "echo hello; echo oops >&2; exec sleep 1000"])
        kubectl = Kubectl(whole)
        code, out, _ = await kubectl("logs", "p", "--timestamps")
        assert (code, [line.split(" ", 1)[1] for line in out.splitlines()]) == (0, ["hello", "oops"])
        assert (await kubectl("exec", "-i", "p", "--", "tr", "a-z", "A-Z", given=b"shout"))[:2] == (0, "SHOUT")
        code, _, errors = await kubectl("exec", "p", "--", "sh", "-c", "echo no >&2; exit 7")
        assert (code, errors) == (7, "no\ncommand terminated with exit code 7\n")
        blob = tmp_path / "blob"
        blob.write_bytes(os.urandom(1 << 20))
        there = f"/tmp/podfit-{os.getpid()}-copied"
        assert (await kubectl("cp", str(blob), f"p:{there}"))[0] == 0
        assert (await kubectl("cp", f"p:{there}", str(tmp_path / "back")))[0] == 0
        assert (await kubectl("exec", "p", "--", "rm", there))[0] == 0
        assert (tmp_path / "back").read_bytes() == blob.read_bytes()
