"""ExecSync: a command in the guest, run by its agent."""

from __future__ import annotations

import asyncio
from typing import Any

from podfit.cri import api_pb2 as cri
from podfit.vm.machines.guest import AgentFailed
from podfit.vm.records import RUNNING, Container
from podfit.vm.runtime import Runtime
from podfit.vm.server.answers import WrongState, answered


class Execs:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def running(self, id: str) -> Container:
        container = self._runtime.container(id)
        if container.state != RUNNING:
            raise WrongState(f"the container {id} is not running")
        return container

    @answered
    async def ExecSync(self, request: cri.ExecSyncRequest, _context: Any) -> cri.ExecSyncResponse:
        container = self.running(request.container_id)
        try:
            async with asyncio.timeout(request.timeout or None):
                ran = await self._runtime.resizer.agent(container).run(list(request.cmd))
        except TimeoutError:
            raise TimeoutError(f"command {list(request.cmd)} timed out after {request.timeout} s") from None
        except AgentFailed as error:
            raise AgentFailed(f"the guest cannot run {request.cmd[0]!r}: {error}") from error
        return cri.ExecSyncResponse(stdout=ran.out, stderr=ran.err, exit_code=ran.code)
