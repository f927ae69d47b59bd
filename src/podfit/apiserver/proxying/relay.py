"""Connects two WebSockets: messages from one are sent on the other, until either is closed.

Every upgraded connection of this server ends with `first_of`: when one side is done, the other is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import aiohttp
from aiohttp import WSMsgType, web

from podfit.apiserver.request import Response
from podfit.kit.web.listener import LARGEST_MESSAGE


class Upgraded(Response, kw_only=True):
    """The connection was taken over and has been served."""

    made: web.StreamResponse


async def first_of(*sides: Coroutine[None, None, None]) -> None:
    """Runs all coroutines until one ends; the others are cancelled, and their errors are ignored."""
    tasks = [asyncio.ensure_future(side) for side in sides]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def relay(http: web.BaseRequest, there: aiohttp.ClientWebSocketResponse) -> Response:
    """Accepts the client's upgrade with the protocol that the target selected, and relays messages."""
    protocols = [there.protocol] if there.protocol else ()
    here = web.WebSocketResponse(protocols=protocols, max_msg_size=LARGEST_MESSAGE)
    await here.prepare(http)
    try:
        await first_of(_pump(here, there), _pump(there, here))
    finally:
        code = there.close_code or 1000
        await here.close(code=code if code not in (1005, 1006) else 1000)
        await there.close()
    return Upgraded(101, made=here)


Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def _pump(source: Socket, sink: Socket) -> None:
    async for message in source:
        if message.type == WSMsgType.BINARY:
            await sink.send_bytes(message.data)
        elif message.type == WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type == WSMsgType.ERROR:
            return
