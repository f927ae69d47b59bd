"""Exec, attach and port-forward through the runtime's streaming server.

The runtime answers with a URL. The connection to it is upgraded to SPDY, as kubectl does with an API server. The
connection has a stream each for input, output, errors, the terminal's size and the result.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from podfit.agent.runtimes.values import CannotRun, RuntimeFailure
from podfit.kit.concurrency.tasks import Tasks
from podfit.streaming.spdy import SpdyError, SpdySession, SpdyStream
from podfit.streaming.tunnels import PlainCarrier

REMOTE_COMMAND, PORT_FORWARD = "v4.channel.k8s.io", "portforward.k8s.io"
CONNECT_S = 10.0
KILLED = 137
_STDOUT, _STDERR = 1, 2
_WAITING = 64
_SAID_AGAIN = ("Internal error occurred: ", "error executing command in container: ")
"""Prefixes of the runtime's errors that the agent's own server adds, too."""


async def upgrade(url: str, protocol: str) -> PlainCarrier:
    parts = urlsplit(url)
    secure = ssl.create_default_context() if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(
                parts.hostname, parts.port or (443 if secure else 80), ssl=secure
            )
            writer.write(
                f"POST {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: Upgrade\r\n"
                f"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
    except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
        raise RuntimeFailure(
            f"the runtime's streaming server at {parts.netloc} cannot be reached: {error!r}"
        ) from error
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if " 101 " not in status:
        writer.close()
        raise RuntimeFailure(f"the runtime's streaming server at {parts.netloc} answered {status}")
    return PlainCarrier(reader, writer)


class _Streams:
    """A connection and its session."""

    def __init__(self, connection: PlainCarrier) -> None:
        self.session = SpdySession(connection, lambda stream: False)
        self.tasks = Tasks("cri-stream")
        self.tasks.start(self._run(), "cri-stream-session")

    async def _run(self) -> None:
        with suppress(SpdyError, ConnectionError):
            await self.session.run()

    async def close(self) -> None:
        with suppress(ConnectionError, OSError):
            await self.session.close()
        await self.tasks.stop()


class CriExec:
    """A running exec or attach. The result of an attach is the container's exit code, not the connection's."""

    def __init__(self, streams: _Streams, ended: Callable[[], Awaitable[int]] | None) -> None:
        self._streams, self._ended = streams, ended
        self._output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(_WAITING)
        self._open = 0
        self._error: SpdyStream
        self._stdin: SpdyStream | None = None
        self._resize: SpdyStream | None = None
        self._closed = False
        self._code: asyncio.Task[int] | None = None

    async def begin(self, stdin: bool, tty: bool) -> None:
        """Opens the streams in the order in which kubectl does, which servers expect."""
        session = self._streams.session
        self._error = await session.open({"streamtype": "error"})
        if stdin:
            self._stdin = await session.open({"streamtype": "stdin"})
        outputs = [(_STDOUT, await session.open({"streamtype": "stdout"}))]
        if not tty:
            outputs.append((_STDERR, await session.open({"streamtype": "stderr"})))
        else:
            self._resize = await session.open({"streamtype": "resize"})
        self._open = len(outputs)
        for channel, stream in outputs:
            self._streams.tasks.start(self._pump(channel, stream), f"cri-output-{channel}")
        self._code = asyncio.ensure_future(self._outcome())

    async def _pump(self, channel: int, stream: SpdyStream) -> None:
        while data := await stream.read():
            await self._output.put((channel, data))
        self._open -= 1
        if not self._open:
            await self._output.put(None)

    async def _outcome(self) -> int:
        text = b""
        while data := await self._error.read():
            text += data
        return outcome(text)

    async def read(self) -> tuple[int, bytes] | None:
        return None if self._closed else await self._output.get()

    async def write(self, data: bytes) -> None:
        if self._stdin is not None:
            await self._stdin.write(data)

    async def close_stdin(self) -> None:
        if self._stdin is not None:
            await self._stdin.close()

    async def resize(self, columns: int, rows: int) -> None:
        if self._resize is not None:
            await self._resize.write(msgspec.json.encode({"Width": columns, "Height": rows}))

    async def wait(self) -> int:
        if self._ended is not None:
            return await self._ended()
        assert self._code is not None
        await asyncio.wait({self._code})
        return KILLED if self._code.cancelled() else self._code.result()

    async def close(self) -> None:
        self._closed = True
        if self._code is not None:
            self._code.cancel()
            await asyncio.wait({self._code})
        await self._streams.close()


def outcome(text: bytes) -> int:
    """The exit code in the Status that ends an exec. None: the connection broke, and the code is unknown."""
    if not text:
        return KILLED
    try:
        status = msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise CannotRun(text.decode("utf-8", "replace"), "ExecFailed") from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdecimal():
            return int(cause["message"])
    message = str(status.get("message") or "exec failed")
    for prefix in _SAID_AGAIN:
        message = message.removeprefix(prefix)
    raise CannotRun(message, "ExecFailed")


async def start(url: str, stdin: bool, tty: bool, ended: Callable[[], Awaitable[int]] | None = None) -> CriExec:
    streams = _Streams(await upgrade(url, REMOTE_COMMAND))
    stream = CriExec(streams, ended)
    try:
        await stream.begin(stdin, tty)
    except (ConnectionError, OSError) as error:
        await streams.close()
        raise RuntimeFailure(f"the runtime's streaming server closed the connection: {error}") from error
    return stream


class CriForward:
    """A forwarded connection: a data stream, and an error stream."""

    def __init__(self, streams: _Streams, data: SpdyStream, errors: SpdyStream) -> None:
        self._streams, self._data, self._errors = streams, data, errors

    async def read(self) -> bytes:
        """Raises the runtime's error if the pod does not listen."""
        data = await self._data.read()
        if not data and (why := await self._errors.read()):
            raise RuntimeFailure(why.decode("utf-8", "replace"))
        return data

    async def write(self, data: bytes) -> None:
        await self._data.write(data)

    async def close_write(self) -> None:
        await self._data.close()

    async def close(self) -> None:
        await self._streams.close()


async def forward(url: str, port: int) -> CriForward:
    streams = _Streams(await upgrade(url, PORT_FORWARD))
    headers = {"port": str(port), "requestid": "0"}
    errors = await streams.session.open({"streamtype": "error", **headers})
    await errors.close()
    data = await streams.session.open({"streamtype": "data", **headers})
    return CriForward(streams, data, errors)
