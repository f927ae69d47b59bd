"""Sends streaming responses over WebSocket: watches and logs."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

from aiohttp import WSMsgType, web

from podfit.apiserver.protobufs.form import frames_of
from podfit.apiserver.proxying.relay import first_of

_BASE64 = "base64.binary.k8s.io"
_READERS = ("binary.k8s.io", _BASE64)
"""The limit of incoming messages on a WebSocket that is only written to."""


async def send_watch(http: web.BaseRequest, stream: AsyncIterator[bytes], framed: bool) -> web.StreamResponse:
    """Sends a watch over WebSocket: one event per message, as text or protobuf."""
    socket = web.WebSocketResponse(heartbeat=30)
    await socket.prepare(http)
    try:
        await first_of(_until_closed(socket), (_send_frames if framed else _send_events)(socket, stream))
    finally:
        await socket.close()
    return socket


async def send_log(http: web.BaseRequest, stream: AsyncIterator[bytes]) -> web.StreamResponse:
    """Sends a log over WebSocket: raw in binary messages, or base64 in text messages."""
    offered = {word.strip() for word in http.headers.get("Sec-WebSocket-Protocol", "").split(",")}
    socket = web.WebSocketResponse(heartbeat=30, protocols=[word for word in _READERS if word in offered])
    await socket.prepare(http)
    try:
        await first_of(_until_closed(socket), _send_bytes(socket, stream))
    finally:
        await socket.close()
    return socket


async def _send_bytes(socket: web.WebSocketResponse, stream: AsyncIterator[bytes]) -> None:
    async for piece in stream:
        if socket.ws_protocol == _BASE64:
            await socket.send_str(base64.b64encode(piece).decode())
        else:
            await socket.send_bytes(piece)


async def _send_events(socket: web.WebSocketResponse, stream: AsyncIterator[bytes]) -> None:
    async for piece in stream:
        for line in piece.splitlines():
            await socket.send_str(line.decode())


async def _send_frames(socket: web.WebSocketResponse, stream: AsyncIterator[bytes]) -> None:
    async for piece in stream:
        for frame in frames_of(piece):
            await socket.send_bytes(frame)


async def _until_closed(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        if message.type in (WSMsgType.ERROR, WSMsgType.CLOSE):
            return
