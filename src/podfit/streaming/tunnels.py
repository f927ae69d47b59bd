"""SPDY sessions of a node: port-forward, exec and attach, in a WebSocket's tunnel or on an upgraded connection."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.takeover import take_over
from podfit.streaming.ends import ByteStream, StreamFailure
from podfit.streaming.forward import Connect, why_not
from podfit.streaming.remote import ERROR, RESIZE, STDERR, STDIN, STDOUT
from podfit.streaming.spdy import Carrier, SpdyError, SpdySession, SpdyStream

log = logging.getLogger(__name__)

TUNNEL = "SPDY/3.1+portforward.k8s.io"
UPGRADE = "SPDY/3.1"
_CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_STREAMS_S = 30.0


class SocketCarrier:
    """The binary messages of a WebSocket as a byte stream."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type != WSMsgType.BINARY:
                return b""
            if message.data:
                return bytes(message.data)

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def close(self) -> None:
        await self._socket.close(code=1000)


class PlainCarrier:
    """An upgraded connection: bytes are passed unchanged."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(65536)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()


async def upgraded(request: web.BaseRequest, protocol: str) -> tuple[web.StreamResponse, PlainCarrier]:
    """Responds with 101 and switches the connection to SPDY."""
    headers = {"Connection": "Upgrade", "Upgrade": UPGRADE, "X-Stream-Protocol-Version": protocol}
    answer, reader, writer = await take_over(request, headers)
    return answer, PlainCarrier(reader, writer)


# --- port-forward --------------------------------------------------------------------------------------------------


class TunnelForward:
    """Each connection is a pair of streams with the same request id: one for errors, then one for data."""

    def __init__(self, carrier: Carrier, connect: Connect) -> None:
        self._connect = connect
        self._session = SpdySession(carrier, self._accept)
        self._errors: dict[str, SpdyStream] = {}
        self._tasks = Tasks("port-forward")

    async def run(self) -> None:
        try:
            await self._session.run()
        except SpdyError as error:
            log.info("port-forward: %s", error)
        finally:
            await self._tasks.stop()
            with suppress(ConnectionError):
                await self._session.close()

    def _accept(self, stream: SpdyStream) -> bool:
        kind, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
        request = stream.headers.get("requestid") or str(stream.number - 2 * (kind == "data"))
        if not port.isdecimal() or not 0 < int(port) < 65536:
            return False
        if kind == "error":
            self._errors[request] = stream
            return True
        errors = self._errors.pop(request, None)
        if kind != "data" or errors is None:
            return False
        self._tasks.start(self._carry(int(port), stream, errors), f"port {port}")
        return True

    async def _carry(self, port: int, data: SpdyStream, errors: SpdyStream) -> None:
        try:
            try:
                connection = await self._connect(port)
            except (StreamFailure, OSError) as error:
                await errors.write(why_not(port, error))
                return
            try:
                await _both_ways(data, connection)
            except StreamFailure as error:
                await errors.write(why_not(port, error))
        except ConnectionError:
            log.debug("the client of a forwarded port is gone")
        finally:
            for stream in (data, errors):
                with suppress(ConnectionError):
                    await stream.close()
                self._session.forget(stream)


async def _both_ways(data: SpdyStream, connection: ByteStream) -> None:
    """Runs until the pod's side is done; the client's end of input is forwarded as a half-close."""

    async def inward() -> None:
        while piece := await data.read():
            await connection.write(piece)
        if data.dead:
            await connection.close()
        else:
            await connection.close_write()

    writing = asyncio.ensure_future(inward())
    try:
        while piece := await connection.read():
            await data.write(piece)
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await connection.close()


# --- exec and attach -----------------------------------------------------------------------------------------------


class SpdyEnd:
    """A client of exec or attach whose channels are streams of a SPDY session."""

    def __init__(self, carrier: Carrier, wanted: frozenset[int]) -> None:
        """`wanted`: the channels the request announced."""
        self._session = SpdySession(carrier, self._accept)
        self._wanted = wanted
        self._streams: dict[int, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._inbox: asyncio.Queue[tuple[int, bytes | None] | None] = asyncio.Queue(64)
        self._tasks = Tasks("exec")

    def _accept(self, stream: SpdyStream) -> bool:
        channel = _CHANNELS.get(stream.headers.get("streamtype", ""))
        if channel is None or channel not in self._wanted or channel in self._streams:
            return False
        self._streams[channel] = stream
        if channel in (STDIN, RESIZE):
            self._tasks.start(self._listen(channel, stream), stream.headers["streamtype"])
        if self._streams.keys() >= self._wanted:
            self._complete.set()
        return True

    async def open(self) -> None:
        """Returns once every announced stream is open; raises TimeoutError if one is missing."""
        self._tasks.start(self._run(), "session")
        async with asyncio.timeout(_STREAMS_S):
            await self._complete.wait()

    async def _run(self) -> None:
        try:
            await self._session.run()
        except SpdyError as error:
            log.info("exec: %s", error)
        await self._inbox.put(None)

    async def _listen(self, channel: int, stream: SpdyStream) -> None:
        while data := await stream.read():
            for piece in data.splitlines() if channel == RESIZE else (data,):
                await self._inbox.put((channel, piece))
        await self._inbox.put((channel, None))

    async def receive(self) -> tuple[int, bytes | None] | None:
        return await self._inbox.get()

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None:
            await stream.write(data)

    async def finish(self, status: dict[str, Any]) -> None:
        with suppress(ConnectionError):
            await self.send(ERROR, msgspec.json.encode(status))
            for stream in self._streams.values():
                await stream.close()

    async def close(self) -> None:
        await self._session.close()
        await self._tasks.stop()
