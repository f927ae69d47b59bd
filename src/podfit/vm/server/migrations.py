"""The calls that move VMs between two runtimes; see podfit.cri.migrations."""

from __future__ import annotations

import base64
from typing import Any

from podfit.cri import api_pb2 as cri
from podfit.vm.moving.places import Offer, PreparedTarget
from podfit.vm.runtime import Runtime
from podfit.vm.server.answers import WrongState, answered

Message = dict[str, Any]


class Migrations:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @answered
    async def Offer(self, request: Message, _context: Any) -> Message:
        offer = await self._runtime.departures.offer(self._runtime.container(request["id"]))
        return {"offer": offer.to_json()}

    @answered
    async def Prepare(self, request: Message, _context: Any) -> Message:
        sandbox = self._runtime.sandbox(request["sandbox"])
        if not sandbox.ready:
            raise WrongState(f"the sandbox {sandbox.id} is not ready")
        config = cri.ContainerConfig.FromString(base64.b64decode(request["config"]))
        place = await self._runtime.arrivals.prepare(sandbox, config, Offer.from_json(request["offer"]))
        return {"place": place.to_json()}

    @answered
    async def Move(self, request: Message, _context: Any) -> Message:
        container = self._runtime.container(request["id"])
        await self._runtime.departures.leave(container, PreparedTarget.from_json(request["place"]))
        return {}

    @answered
    async def Adopt(self, request: Message, _context: Any) -> Message:
        self._runtime.arrivals.adopt(self._runtime.container(request["id"]))
        return {}

    @answered
    async def Stay(self, request: Message, _context: Any) -> Message:
        await self._runtime.departures.stay(self._runtime.container(request["id"]))
        return {}
