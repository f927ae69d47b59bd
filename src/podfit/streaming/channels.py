"""Kubernetes' channels over a WebSocket: every binary message starts with the number of its channel.

v5 adds 255 to v4: `255 n` closes channel n, which signals the end of standard input. Before v4 the error channel had no
Status: an error is its text, and success sends nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from podfit.streaming.remote import ERROR

V5, V4, V1 = "v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"
CLOSE = 255


class ChannelEnd:
    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> tuple[int, bytes | None] | None:
        while True:
            message = await self._socket.receive()
            if message.type == WSMsgType.TEXT:
                data = message.data.encode()
            elif message.type == WSMsgType.BINARY:
                data = message.data
            else:
                return None
            if not data:
                continue
            if data[0] == CLOSE and self._socket.ws_protocol == V5:
                if len(data) > 1:
                    return data[1], None
                continue
            return data[0], data[1:]

    async def send(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes((channel,)) + data)

    async def finish(self, status: dict[str, Any]) -> None:
        if self._socket.ws_protocol != V1:
            await self.send(ERROR, msgspec.json.encode(status))
        elif status.get("status") != "Success":
            await self.send(ERROR, str(status.get("message") or "").encode())
        await self._socket.close(code=1000)
