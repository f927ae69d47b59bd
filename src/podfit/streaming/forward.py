"""Port-forward: connections into the pod, each on a pair of channels or streams: one for data, one for errors."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import WSMsgType, web

from podfit.streaming.ends import ByteStream, StreamFailure

Connect = Callable[[int], Awaitable[ByteStream]]
_WAITING = 64
"""The most messages from the client queued for a connection before the WebSocket is no longer read."""


class BadPort(ValueError):
    """An invalid port; the message is for the user."""


def ports_of(words: Sequence[str]) -> list[int]:
    ports = []
    for word in (part for text in words for part in text.split(",")):
        if not word.isdecimal() or not 0 < int(word) < 65536:
            raise BadPort(f'unable to parse "{word}" as a port: it is a number from 1 to 65535')
        ports.append(int(word))
    if not ports:
        raise BadPort('query parameter "port" is required')
    return ports


class ChannelForward:
    """The channel protocol: port number i has channel 2i for data and 2i+1 for errors.

    The first message on each is the port as two bytes, little-endian.
    """

    def __init__(self, socket: web.WebSocketResponse, connect: Connect, ports: Sequence[int]) -> None:
        self._socket, self._connect, self._ports = socket, connect, ports
        self._inboxes: list[asyncio.Queue[bytes]] = [asyncio.Queue(_WAITING) for _ in ports]

    async def run(self) -> None:
        for index, port in enumerate(self._ports):
            for channel in (2 * index, 2 * index + 1):
                await self._send(channel, struct.pack("<H", port))
        tasks = [asyncio.ensure_future(self._carry(index, port)) for index, port in enumerate(self._ports)]
        try:
            await self._receive()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self) -> None:
        async for message in self._socket:
            if message.type != WSMsgType.BINARY or not message.data:
                continue
            index, odd = divmod(message.data[0], 2)
            if not odd and index < len(self._inboxes):
                await self._inboxes[index].put(message.data[1:])

    async def _carry(self, index: int, port: int) -> None:
        try:
            connection = await self._connect(port)
        except (StreamFailure, OSError) as error:
            await self._send(2 * index + 1, why_not(port, error))
            return
        writing = asyncio.ensure_future(self._write(connection, self._inboxes[index]))
        try:
            while data := await connection.read():
                await self._send(2 * index, data)
        except StreamFailure as error:
            await self._send(2 * index + 1, why_not(port, error))
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await connection.close()

    @staticmethod
    async def _write(connection: ByteStream, inbox: asyncio.Queue[bytes]) -> None:
        while True:
            await connection.write(await inbox.get())

    async def _send(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes((channel,)) + data)


def why_not(port: int, error: Exception) -> bytes:
    return f"error forwarding port {port} to pod: {error}".encode()
