"""CRI's calls for commands in the guest, its console, and connections to it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from podfit.api.pods import machines
from podfit.cri import api_pb2 as cri
from podfit.streaming.ends import ByteStream, ExecStream, StreamFailure
from podfit.vm.machines.events import AGENT_UP, STOPPED
from podfit.vm.machines.guest import AgentFailed, CommandResult, GuestAgent
from podfit.vm.reach.consoleends import ConsoleStream
from podfit.vm.records import RUNNING, Container
from podfit.vm.runtime import Runtime
from podfit.vm.server.answers import WrongState, answered
from podfit.vm.server.streaming.shell import GuestExec
from podfit.vm.server.streaming.streams import Conversation, StreamServer

_POWERS = {machines.PAUSED: "paused", machines.SUSPENDED: "suspended", machines.SHUTDOWN: "shut down"}
BOOT_S = 60.0
"""The time that a guest's agent may take to respond after the guest's start; commands wait for it."""


class Execs:
    def __init__(self, runtime: Runtime, streams: StreamServer) -> None:
        self._runtime, self._streams = runtime, streams

    def _running(self, id: str) -> Container:
        container = self._runtime.container(id)
        if container.state != RUNNING:
            raise WrongState(f"the container {id} is not running")
        return container

    async def _agent(self, container: Container) -> GuestAgent:
        """The guest agent. Waits for a guest that is still booting, because its container counts as running."""
        agent = self._runtime.resizer.agent(container)
        if await agent.answers():
            return agent
        power = await self._runtime.power.actual(container)
        if power != machines.RUNNING:
            raise WrongState(f"the VM is {_POWERS[power]}: commands can run when it runs again")
        with self._runtime.waits.following(container.uuid, AGENT_UP, STOPPED) as on_event:
            while not await agent.answers():
                left = container.started_ns / 1e9 + BOOT_S - time.time()
                if left <= 0 or not await on_event.wait(left):
                    break
                self._running(container.id)
        return agent

    @answered
    async def ExecSync(self, request: cri.ExecSyncRequest, _context: Any) -> cri.ExecSyncResponse:
        container = self._running(request.container_id)
        try:
            async with asyncio.timeout(request.timeout or None):
                ran = await self._run(await self._agent(container), list(request.cmd))
        except TimeoutError:
            raise TimeoutError(f"command {list(request.cmd)} timed out after {request.timeout} s") from None
        except AgentFailed as error:
            raise AgentFailed(f"the guest cannot run {request.cmd[0]!r}: {error}") from error
        return cri.ExecSyncResponse(stdout=ran.out, stderr=ran.err, exit_code=ran.code)

    @staticmethod
    async def _run(agent: GuestAgent, words: list[str]) -> CommandResult:
        """Kills the command if no caller waits for it any more."""
        starting = asyncio.ensure_future(agent.start(words))
        try:
            return await agent.result(await asyncio.shield(starting))
        except asyncio.CancelledError:
            with suppress(AgentFailed):
                await agent.run(["/bin/kill", "-9", str(await starting)])
            raise

    @answered
    async def Exec(self, request: cri.ExecRequest, _context: Any) -> cri.ExecResponse:
        container = self._running(request.container_id)
        words, stdin = list(request.cmd), request.stdin

        async def begin() -> ExecStream:
            try:
                agent = await self._agent(container)
            except WrongState as error:
                raise StreamFailure(str(error)) from error
            command = GuestExec(agent, words, stdin, request.tty)
            await command.start()
            return command

        what = Conversation(begin, stdin, request.stdout, request.stderr, request.tty, attached=False)
        return cri.ExecResponse(url=self._streams.offer(what))

    @answered
    async def Attach(self, request: cri.AttachRequest, _context: Any) -> cri.AttachResponse:
        container = self._running(request.container_id)

        async def begin() -> ExecStream:
            present = self._runtime.lives.presence(container)
            console = ConsoleStream((await present.machine.live()).console, present.ended, request.stdin)
            console.open()
            return console

        what = Conversation(begin, request.stdin, request.stdout, request.stderr, request.tty, attached=True)
        return cri.AttachResponse(url=self._streams.offer(what))

    @answered
    async def PortForward(self, request: cri.PortForwardRequest, _context: Any) -> cri.PortForwardResponse:
        sandbox = self._runtime.sandbox(request.pod_sandbox_id)

        async def connect(port: int) -> ByteStream:
            return await self._runtime.networks.dial(sandbox, port)

        return cri.PortForwardResponse(url=self._streams.offer(connect))
