"""A proxy between an agent and a container runtime that replaces the responses to CRI calls chosen by a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from podfit.cri.client import target
from podfit.cri.services import IMAGE, OPTIONS, RUNTIME, calls, handler

Answer = Callable[[Any], Awaitable[Any]]


class Refusal(Exception):
    """Raised instead of a response: the call fails with this code and text."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class CriProxy:
    def __init__(self, folder: Path, endpoint: str) -> None:
        self.endpoint = f"unix://{folder}/proxy.sock"
        self.seen: list[tuple[str, Any]] = []
        """The names and requests of calls, in order."""
        self.answers: dict[str, Answer] = {}
        """Handlers by the name of the call; a handler may forward the request with `forward`."""
        self._behind, self._calls = endpoint, dict[str, Any]()
        self._server: grpc.aio.Server
        self._channel: grpc.aio.Channel

    async def __aenter__(self) -> CriProxy:
        self._channel = grpc.aio.insecure_channel(target(self._behind), options=OPTIONS)
        self._calls = {**calls(self._channel, RUNTIME), **calls(self._channel, IMAGE)}
        self._server = grpc.aio.server(options=OPTIONS)
        self._server.add_generic_rpc_handlers((handler(RUNTIME, self), handler(IMAGE, self)))
        self._server.add_insecure_port(self.endpoint)
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)
        await self._channel.close()

    def count(self, method: str) -> int:
        return sum(name == method for name, _ in self.seen)

    async def forward(self, method: str, request: Any) -> Any:
        return await self._calls[method](request, timeout=120)

    async def GetContainerEvents(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for event in self._calls["GetContainerEvents"](request):
                yield event
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        async def call(request: Any, context: Any) -> Any:
            self.seen.append((method, request))
            try:
                if method in self.answers:
                    return await self.answers[method](request)
                return await self.forward(method, request)
            except Refusal as refusal:
                await context.abort(refusal.code, str(refusal))
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            except asyncio.CancelledError:
                raise

        return call
