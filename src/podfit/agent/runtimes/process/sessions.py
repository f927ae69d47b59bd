"""Runs commands in containers of the process runtime and attaches to them, through the keeper."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid

from podfit.agent.runtimes.base import ExecStream
from podfit.agent.runtimes.process.keeper.terminal import receive_terminal
from podfit.agent.runtimes.process.link import KeeperFailed, Link
from podfit.agent.runtimes.process.records import Known
from podfit.agent.runtimes.process.streams import ProcessAttach, ProcessExec, console_pair, end_exec, pipes
from podfit.agent.runtimes.values import CannotRun
from podfit.kit.concurrency.tasks import Tasks


class StreamCalls(Known):
    _link: Link
    _tasks: Tasks
    _execs: dict[str, asyncio.Future[int]]
    _ends: dict[str, asyncio.Future[None]]

    async def exec(self, container_id: str, command: list[str], tty: bool = False, stdin: bool = False) -> ExecStream:
        if not self._container(container_id).running:
            raise CannotRun(f"container {container_id} is not running", "ExecFailed")
        key = uuid.uuid4().hex
        ended = self._execs[key] = asyncio.get_running_loop().create_future()
        console, theirs = console_pair() if tty else (None, ())
        ours = (-1, -1, -1)
        if console is None:
            ours, theirs = pipes(stdin)
        try:
            await self._link.ask("exec", theirs, id=container_id, key=key, argv=command, tty=tty)
            if console is not None:
                # The terminal was created inside the container before the program began, so it exists by now.
                terminal = receive_terminal(console)
                ours = (terminal, terminal, -1)
        except BaseException as error:
            self._execs.pop(key, None)
            for descriptor in {item for item in ours if item >= 0}:
                os.close(descriptor)
            if isinstance(error, KeeperFailed):
                raise CannotRun(f"failed to exec in container: {error}", "ExecFailed") from error
            self._tasks.start(end_exec(self._link, key), f"end-{key}")
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
            if console is not None:
                console.close()
        return ProcessExec(self._link, key, ended, ours[0] if tty else -1, ours)

    async def attach(self, container_id: str, stdin: bool = False) -> ExecStream:
        self._container(container_id)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            await self._link.ask("attach", (theirs.fileno(),), id=container_id)
        except KeeperFailed as error:
            ours.close()
            raise CannotRun(f"failed to attach to container: {error}", "AttachFailed") from error
        finally:
            theirs.close()

        async def resize(columns: int, rows: int) -> None:
            await self._link.ask("winsize", id=container_id, columns=columns, rows=rows)

        async def ended() -> int:
            await self._until_ended(container_id)
            container = self._containers.get(container_id)
            return int(container.state.get("exit_code", 0)) if container is not None else 0

        return ProcessAttach(ours, resize, ended)

    async def _until_ended(self, container_id: str) -> None:
        end = self._ends.get(container_id)
        if end is not None:
            await asyncio.shield(end)
