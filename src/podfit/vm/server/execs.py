"""CRI's calls for commands in the guest, its console, and connections to it."""

from __future__ import annotations

import asyncio
from typing import Any

from podfit.cri import api_pb2 as cri
from podfit.streaming.ends import ByteStream, ExecStream, StreamFailure
from podfit.vm.consoleends import ConsoleStream
from podfit.vm.machines.guest import AgentFailed
from podfit.vm.machines.shell import GuestExec
from podfit.vm.records import RUNNING, Container
from podfit.vm.runtime import Runtime
from podfit.vm.server.answers import WrongState, answered
from podfit.vm.server.streams import Conversation, StreamServer


class Execs:
    def __init__(self, runtime: Runtime, streams: StreamServer) -> None:
        self._runtime, self._streams = runtime, streams

    def _running(self, id: str) -> Container:
        container = self._runtime.container(id)
        if container.state != RUNNING:
            raise WrongState(f"the container {id} is not running")
        return container

    @answered
    async def ExecSync(self, request: cri.ExecSyncRequest, _context: Any) -> cri.ExecSyncResponse:
        container = self._running(request.container_id)
        try:
            async with asyncio.timeout(request.timeout or None):
                ran = await self._runtime.resizer.agent(container).run(list(request.cmd))
        except TimeoutError:
            raise TimeoutError(f"command {list(request.cmd)} timed out after {request.timeout} s") from None
        except AgentFailed as error:
            raise AgentFailed(f"the guest cannot run {request.cmd[0]!r}: {error}") from error
        return cri.ExecSyncResponse(stdout=ran.out, stderr=ran.err, exit_code=ran.code)

    @answered
    async def Exec(self, request: cri.ExecRequest, _context: Any) -> cri.ExecResponse:
        container = self._running(request.container_id)
        words, stdin = list(request.cmd), request.stdin

        async def begin() -> ExecStream:
            if request.tty:
                raise StreamFailure(
                    "the guest's agent has no terminals: leave out --tty, "
                    "or use the serial console (kubectl attach --stdin --tty)"
                )
            command = GuestExec(self._runtime.resizer.agent(container), words, stdin)
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
