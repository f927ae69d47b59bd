"""Commands with streams, through an agent that behaves like qemu-guest-agent, on this machine instead of a guest."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from podfit.vm.machines.guest import AgentFailed, GuestAgent
from podfit.vm.server.streaming.shell import GuestExec


class HostAgent:
    """Runs all commands on this machine. A missing file that is opened for writing is created, as by the real agent."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    async def command(self, name: str, **arguments: Any) -> Any:
        return getattr(self, name.replace("-", "_"))(**arguments)

    def guest_exec(self, path: str, arg: list[str]) -> dict[str, int]:
        process = subprocess.Popen([path, *arg], env={"PATH": self._path}, stderr=subprocess.DEVNULL)
        self._running[process.pid] = process
        return {"pid": process.pid}

    def guest_exec_status(self, pid: int) -> dict[str, Any]:
        code = self._running[pid].poll()
        return {"exited": code is not None, "exitcode": code}

    def guest_file_open(self, path: str, mode: str = "r") -> int:
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT if mode == "w" else os.O_RDONLY)
        except OSError as error:
            raise AgentFailed(str(error)) from error

    def guest_file_read(self, handle: int, count: int) -> dict[str, Any]:
        data = os.read(handle, count)
        return {"count": len(data), "buf-b64": base64.b64encode(data).decode()}

    def guest_file_write(self, handle: int, **data: str) -> None:
        os.write(handle, base64.b64decode(data["buf-b64"]))

    def guest_file_seek(self, **_where: Any) -> None:
        return

    def guest_file_flush(self, **_handle: Any) -> None:
        return

    def guest_file_close(self, handle: int) -> None:
        os.close(handle)

    async def start(self, words: list[str]) -> int:
        return int(self.guest_exec(words[0], words[1:])["pid"])

    def wait(self) -> None:
        for process in self._running.values():
            process.wait(60)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[HostAgent]:
    """It makes pipes late: anything may come between two commands of a shell."""
    late = tmp_path / "mkfifo"
    late.write_text('#!/bin/sh\nsleep 0.2\nPATH=${PATH#*:} exec mkfifo "$@"\n')
    late.chmod(0o755)
    made = HostAgent(f"{tmp_path}:{os.environ['PATH']}")
    yield made
    made.wait()


async def everything(running: GuestExec) -> dict[int, bytes]:
    found = {1: b"", 2: b""}
    while (piece := await running.read()) is not None:
        found[piece[0]] += piece[1]
    return found


async def test_input_reaches_the_command_even_if_its_pipe_is_created_late(agent: HostAgent) -> None:
    running = GuestExec(cast(GuestAgent, agent), ["tr", "a-z", "A-Z"], stdin=True)
    await running.start()
    await running.write(b"hello\n")
    await running.close_stdin()
    assert await everything(running) == {1: b"HELLO\n", 2: b""}
    assert await running.wait() == 0
    await running.close()


async def test_a_command_without_input_has_its_streams_and_its_exit_code(agent: HostAgent) -> None:
    running = GuestExec(cast(GuestAgent, agent), ["sh", "-c", "cat; echo out; echo err >&2; exit 3"], stdin=False)
    await running.start()
    assert await everything(running) == {1: b"out\n", 2: b"err\n"}
    assert await running.wait() == 3
    await running.close()
