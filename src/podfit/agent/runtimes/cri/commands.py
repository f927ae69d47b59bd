"""Runs commands in containers and connects into pods: both are requested from the runtime, and carried by its streaming
server."""

from __future__ import annotations

import math

from podfit.agent.runtimes.base import ByteStream, ExecStream
from podfit.agent.runtimes.cri import streaming
from podfit.agent.runtimes.cri.failures import failure
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.records import Container
from podfit.agent.runtimes.values import RUNNING, CannotRun
from podfit.cri import CriError
from podfit.cri import api_pb2 as api

EXEC_S = 10.0
"""The time that a runtime may take to kill a command, in addition to the command's own timeout."""
NO_DEADLINE_S = 86_400.0


class Commands:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def _running(self, container_id: str, reason: str) -> Container:
        known = self._inventory.container(container_id)
        if known.state.state != RUNNING:
            raise CannotRun(f"container {container_id} is not running", reason)
        return known

    async def exec(self, container_id: str, command: list[str], tty: bool = False, stdin: bool = False) -> ExecStream:
        self._running(container_id, "ExecFailed")
        request = api.ExecRequest(
            container_id=container_id, cmd=command, tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        try:
            answer = await self._inventory.client.ask("Exec", request)
        except CriError as error:
            raise CannotRun(error.details, "ExecFailed") from error
        return await streaming.start(answer.url, stdin, tty)

    async def exec_sync(
        self, container_id: str, command: list[str], timeout_s: float = 0.0
    ) -> tuple[int, bytes, bytes]:
        self._running(container_id, "ExecFailed")
        request = api.ExecSyncRequest(container_id=container_id, cmd=command, timeout=math.ceil(timeout_s))
        try:
            # Without a timeout the command itself decides when it ends, as for a hook.
            answer = await self._inventory.client.ask(
                "ExecSync", request, timeout_s + EXEC_S if timeout_s else NO_DEADLINE_S
            )
        except CriError as error:
            raise CannotRun(error.details, "ExecFailed") from error
        return answer.exit_code, answer.stdout, answer.stderr

    async def attach(self, container_id: str, stdin: bool = False) -> ExecStream:
        known = self._running(container_id, "AttachFailed")
        tty = known.kept.tty
        request = api.AttachRequest(container_id=container_id, stdin=stdin, tty=tty, stdout=True, stderr=not tty)
        try:
            answer = await self._inventory.client.ask("Attach", request)
        except CriError as error:
            raise CannotRun(error.details, "AttachFailed") from error

        async def ended() -> int:
            await self._inventory.until_ended(container_id)
            return known.state.exit_code

        return await streaming.start(answer.url, stdin, tty, ended)

    async def connect(self, uid: str, port: int) -> ByteStream:
        request = api.PortForwardRequest(pod_sandbox_id=self._inventory.pod(uid).sandbox_id, port=[port])
        try:
            answer = await self._inventory.client.ask("PortForward", request)
        except CriError as error:
            raise failure(error) from error
        return await streaming.forward(answer.url, port)


class StreamCalls:
    """The part of the runtime that runs commands and connects."""

    _commands: Commands

    async def exec(self, container_id: str, command: list[str], tty: bool = False, stdin: bool = False) -> ExecStream:
        return await self._commands.exec(container_id, command, tty, stdin)

    async def exec_sync(
        self, container_id: str, command: list[str], timeout_s: float = 0.0
    ) -> tuple[int, bytes, bytes]:
        return await self._commands.exec_sync(container_id, command, timeout_s)

    async def attach(self, container_id: str, stdin: bool = False) -> ExecStream:
        return await self._commands.attach(container_id, stdin)

    async def connect(self, uid: str, port: int) -> ByteStream:
        return await self._commands.connect(uid, port)
