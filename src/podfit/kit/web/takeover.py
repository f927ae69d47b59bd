"""Takes a connection over from an HTTP server after a protocol upgrade."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web
from multidict import CIMultiDict

Headers = Mapping[str, str] | CIMultiDict[str]


async def take_over(
    request: web.BaseRequest, headers: Headers
) -> tuple[web.StreamResponse, asyncio.StreamReader, asyncio.StreamWriter]:
    """Sends a response 101 with `headers`; the caller serves the streams and then returns the response from its
    handler.

    The client waits for the response before it sends anything else, so nothing is lost in between.
    """
    answer = web.StreamResponse(status=101, headers=headers)
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    before = transport.get_protocol()
    reader = asyncio.StreamReader()
    handler = _UpgradedConnection(reader, before)
    await answer.prepare(request)
    transport.set_protocol(handler)
    handler.connection_made(transport)
    answer.force_close()
    return answer, reader, asyncio.StreamWriter(transport, handler, reader, asyncio.get_running_loop())


class _UpgradedConnection(asyncio.StreamReaderProtocol):
    """The protocol of an upgraded connection. Forwards the end of the connection to the HTTP protocol it replaced."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._before.connection_lost(exc)
