"""Two WebSockets, tied together: what comes in on one goes out on the other, until either ends."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import WSMsgType, web

from podfit.apiserver.request import Response


class Upgraded(Response):
    """The connection was taken over and has been served."""

    made: web.StreamResponse


async def relay(http: web.BaseRequest, there: aiohttp.ClientWebSocketResponse) -> Response:
    """Accepts the client's upgrade with the protocol the other side chose, and relays."""
    here = web.WebSocketResponse(protocols=[there.protocol] if there.protocol else (), max_msg_size=0)
    await here.prepare(http)
    tasks = [
        asyncio.ensure_future(_pump(here, there)),
        asyncio.ensure_future(_pump(there, here)),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        code = there.close_code or 1000
        await here.close(code=code if code not in (1005, 1006) else 1000)
        await there.close()
    answer = Upgraded(101)
    answer.made = here
    return answer


Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def _pump(source: Socket, sink: Socket) -> None:
    async for message in source:
        if message.type == WSMsgType.BINARY:
            await sink.send_bytes(message.data)
        elif message.type == WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type == WSMsgType.ERROR:
            return
