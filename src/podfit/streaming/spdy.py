"""SPDY/3.1 as used by Kubernetes: streams over one connection, opened by the client. No HTTP semantics, no push.

Frames are those of the SPDY/3.1 draft (sections 2.2 and 2.6). Flow-control windows are not implemented: Kubernetes'
clients neither send nor respect them; instead, a stream whose reader is slow blocks the connection.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable
from typing import Protocol

from podfit.streaming.spdy_dictionary import DICTIONARY

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 0x01
_VERSION = 3
_PROTOCOL_ERROR, _REFUSED = 1, 3
_CHUNK = 32 * 1024
_WAITING = 128
_MOST_STREAMS = 2048
_MOST_HEADERS = 1 << 20


class SpdyError(Exception):
    """The other side does not use SPDY/3.1; the connection is closed."""


class Carrier(Protocol):
    """The transport of frames: a socket, or the binary messages of a WebSocket."""

    async def read(self) -> bytes:
        """The next chunk, which need not be a whole frame; b"" at the end."""

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


class Blocks:
    """Header blocks: compressed with one dictionary and one history for each direction of a connection."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(zdict=DICTIONARY)
        self._opener = zlib.decompressobj(zdict=DICTIONARY)

    def pack(self, headers: dict[str, str]) -> bytes:
        plain = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                plain += struct.pack(">I", len(text)) + text
        return self._packer.compress(plain) + self._packer.flush(zlib.Z_SYNC_FLUSH)

    def open(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._opener.decompress(block, _MOST_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be read: {error}") from error
        texts: list[str] = []
        at = 4
        count = int.from_bytes(plain[:4], "big")
        for _ in range(2 * count):
            size = int.from_bytes(plain[at : at + 4], "big")
            if at + 4 + size > len(plain):
                raise SpdyError("headers end too early")
            texts.append(plain[at + 4 : at + 4 + size].decode("utf-8", "replace"))
            at += 4 + size
        # Several values of one name are joined by NUL; any of them is sufficient here.
        return {name: value.split("\0")[0] for name, value in zip(texts[::2], texts[1::2], strict=True)}


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8000 | _VERSION, kind, flags << 24 | len(body)) + body


def data_frame(stream: int, data: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(data)) + data


class SpdyStream:
    def __init__(self, session: SpdySession, number: int, headers: dict[str, str]) -> None:
        self.number, self.headers = number, headers
        self._session = session
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._over = self._closed = self.dead = False
        self._ending: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """b"" once the other side has closed its half."""
        if self._over:
            return b""
        data = await self._inbox.get()
        self._over = not data
        return data

    async def write(self, data: bytes) -> None:
        if self._closed or self.dead:
            raise ConnectionResetError("the stream is closed")
        for at in range(0, len(data), _CHUNK):
            await self._session.send(data_frame(self.number, data[at : at + _CHUNK]))

    async def close(self) -> None:
        """Half-closes our side."""
        if not self._closed and not self.dead:
            self._closed = True
            await self._session.send(data_frame(self.number, b"", FIN))

    async def take(self, data: bytes) -> None:
        # In chunks, so that the data buffered for a slow reader is bounded: a frame may have 16 MiB.
        for at in range(0, len(data), _CHUNK):
            if not self.dead:
                await self._inbox.put(data[at : at + _CHUNK])

    def end(self, dead: bool = False) -> None:
        """The other side half-closed the stream, or with `dead` reset it: unread bytes are dropped."""
        self.dead = self.dead or dead
        while self.dead and not self._inbox.empty():
            self._inbox.get_nowait()
        if self._inbox.full():
            self._ending = asyncio.ensure_future(self._inbox.put(b""))
        else:
            self._inbox.put_nowait(b"")


class SpdySession:
    def __init__(self, carrier: Carrier, accept: Callable[[SpdyStream], bool]) -> None:
        """`accept` is called with each new stream and returns whether to accept it. It must not block."""
        self._carrier, self._accept = carrier, accept
        self._blocks = Blocks()
        self._streams: dict[int, SpdyStream] = {}
        self._buffer = bytearray()
        self._sending = asyncio.Lock()
        self._last = 0
        self._opened = -1

    @property
    def _is_server(self) -> bool:
        """Whether this side is the server. A client still has to read data that it received before its server closed
        the stream or the connection."""
        return self._opened < 0

    async def open(self, headers: dict[str, str]) -> SpdyStream:
        """Opens a stream, as the client of the connection."""
        async with self._sending:
            # Compressed under the lock: header blocks refer to those that were sent before.
            self._opened += 2
            stream = self._streams[self._opened] = SpdyStream(self, self._opened, headers)
            body = struct.pack(">IIBB", self._opened, 0, 0, 0) + self._blocks.pack(headers)
            await self._carrier.write(control(SYN_STREAM, body))
        return stream

    async def send(self, frame: bytes) -> None:
        async with self._sending:
            await self._carrier.write(frame)

    async def run(self) -> None:
        """Runs until the other side disconnects; then every stream is closed."""
        try:
            while data := await self._carrier.read():
                self._buffer += data
                while (frame := self._next()) is not None:
                    if not await self._handle(*frame):
                        return
        finally:
            for stream in self._streams.values():
                stream.end(dead=self._is_server)
            self._streams.clear()

    async def close(self) -> None:
        try:
            await self.send(control(GOAWAY, struct.pack(">II", self._last, 0)))
        except ConnectionError:
            pass
        await self._carrier.close()

    def forget(self, stream: SpdyStream) -> None:
        """The stream has no reader any more."""
        self._streams.pop(stream.number, None)
        stream.end(dead=True)

    def _next(self) -> tuple[int, int, bytes] | None:
        """(first word, flags, body) of the next whole frame."""
        if len(self._buffer) < 8:
            return None
        word, rest = struct.unpack_from(">II", self._buffer)
        if word >> 31 and word >> 16 & 0x7FFF != _VERSION:
            raise SpdyError(f"SPDY version {word >> 16 & 0x7FFF} is not spoken here")
        size = rest & 0xFFFFFF
        if len(self._buffer) < 8 + size:
            return None
        body = bytes(self._buffer[8 : 8 + size])
        del self._buffer[: 8 + size]
        return word, rest >> 24, body

    async def _handle(self, word: int, flags: int, body: bytes) -> bool:
        """Handles one frame; returns False if the session has ended."""
        if not word >> 31:
            await self._data(word, flags, body)
            return True
        kind = word & 0xFFFF
        if kind == SYN_STREAM:
            await self._open(flags, body)
        elif kind == RST_STREAM and len(body) >= 8:
            stream = self._streams.pop(int.from_bytes(body[:4], "big"), None)
            if stream is not None:
                stream.end(dead=self._is_server)
        elif kind == PING:
            await self.send(control(PING, body))
        elif kind in (HEADERS, SYN_REPLY) and len(body) >= 4:
            # Decompressed only because later blocks refer to its history.
            self._blocks.open(body[4:])
        return kind != GOAWAY

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        await stream.take(body)
        if flags & FIN:
            stream.end()

    async def _open(self, flags: int, body: bytes) -> None:
        if len(body) < 10:
            raise SpdyError("SYN_STREAM is too short")
        number = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
        headers = self._blocks.open(body[10:])
        if number <= self._last or not number % 2:
            await self.send(control(RST_STREAM, struct.pack(">II", number, _PROTOCOL_ERROR)))
            return
        self._last = number
        stream = SpdyStream(self, number, headers)
        if len(self._streams) >= _MOST_STREAMS or not self._accept(stream):
            await self.send(control(RST_STREAM, struct.pack(">II", number, _REFUSED)))
            return
        self._streams[number] = stream
        await self.send(control(SYN_REPLY, struct.pack(">I", number) + self._blocks.pack({})))
        if flags & FIN:
            stream.end()
