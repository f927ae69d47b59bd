"""The listener: the limit of connections, which of them it closes, and timeouts of clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from podfit.kit.clock import FakeClock
from podfit.kit.web.listener import HEADER_S, Connection, HttpListener

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    """A listener that holds three connections; a request for /wait is answered when `go` is set."""

    def __init__(self) -> None:
        self.clock, self.go = FakeClock(), asyncio.Event()
        self.listener = HttpListener(self._serve, None, limit=3, clock=self.clock)
        self.made: list[Streams] = []

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        assert isinstance(request.protocol, Connection)
        request.protocol.trusted = request.path == "/known"
        if request.path == "/wait":
            await self.go.wait()
        return web.Response(text="ok")

    async def connect(self) -> Streams:
        connection = await asyncio.open_connection("127.0.0.1", self.listener.port)
        self.made.append(connection)
        return connection

    async def ask(self, path: str = "/") -> Streams:
        reader, writer = await self.connect()
        writer.write(ASK.replace(b"/", path.encode(), 1))
        if path != "/wait":
            await reader.readuntil(b"ok")
        return reader, writer


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.listener.open("127.0.0.1", 0)
    yield made
    made.go.set()
    for _, writer in made.made:
        writer.close()
    await made.listener.close()


async def is_open(site: Site, connection: Streams) -> bool:
    reader, writer = connection
    with contextlib.suppress(ConnectionError):
        writer.write(ASK)
        return b"ok" in await reader.read(1 << 16)
    return False


async def ended(connection: Streams) -> bool:
    with contextlib.suppress(ConnectionError):
        return await connection[0].read() == b""
    return True


async def test_a_connection_beyond_the_limit_replaces_the_longest_idle_one(site: Site) -> None:
    first, second, third = [await site.ask() for _ in range(3)]
    for connection, since in zip(
        sorted(site.listener.connections, key=lambda obj: obj.idle_since), (3.0, 1.0, 2.0), strict=True
    ):
        connection.idle_since = since
    await site.ask()
    assert sorted([await is_open(site, item) for item in (first, second, third)]) == [False, True, True]


async def test_authenticated_connections_are_closed_last(site: Site) -> None:
    known = await site.ask("/known")
    for _ in range(6):
        await site.ask()
    assert await is_open(site, known)


async def test_a_burst_of_connections_does_not_exceed_the_limit(site: Site) -> None:
    for _ in range(3):
        await site.ask()
    # Made without a step of the event loop: all of them wait when the listener accepts the first.
    sockets = [socket.create_connection(("127.0.0.1", site.listener.port)) for _ in range(30)]
    burst = [await asyncio.open_connection(sock=entry) for entry in sockets]
    site.made += burst
    assert sum([await is_open(site, item) for item in burst]) <= 3


async def test_a_connection_with_an_open_request_is_never_closed(site: Site) -> None:
    waiting = [await site.ask("/wait") for _ in range(3)]
    while sum(connection.answering for connection in site.listener.connections) < 3:
        await asyncio.sleep(0)
    assert await ended(await site.connect())
    site.go.set()
    for reader, _ in waiting:
        assert await reader.readuntil(b"ok")


async def test_a_client_that_never_finishes_its_headers_is_disconnected(site: Site) -> None:
    slow = await site.connect()
    slow[1].write(b"GET / HTTP/1.1\r\nX: ")
    while not site.listener.connections:
        await asyncio.sleep(0)
    over = asyncio.ensure_future(ended(slow))
    while not over.done():
        await site.clock.advance(HEADER_S)
        await asyncio.sleep(0)
    assert await over


async def test_the_error_names_an_address_that_is_in_use(site: Site) -> None:
    other = HttpListener(site._serve, None)
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{site.listener.port}: Address already in use"):
        await other.open("127.0.0.1", site.listener.port)


async def test_the_port_of_a_closed_listener_can_be_reused_at_once(site: Site) -> None:
    await site.ask()
    port = site.listener.port
    await site.listener.close()
    again = HttpListener(site._serve, None)
    await again.open("127.0.0.1", port)
    assert again.port == port
    await again.close()
