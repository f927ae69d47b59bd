"""The listener: how many connections it holds, which of them it gives up, and how long it waits for a client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from podfit.kit.clock import FakeClock
from podfit.kit.web.door import HEADER_S, Door, Visitor

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Place:
    """A door that holds three connections; a request for /wait is answered when `go` is set."""

    def __init__(self) -> None:
        self.clock, self.go = FakeClock(), asyncio.Event()
        self.door = Door(self._serve, None, limit=3, clock=self.clock)
        self.made: list[Connection] = []

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        assert isinstance(request.protocol, Visitor)
        request.protocol.trusted = request.path == "/known"
        if request.path == "/wait":
            await self.go.wait()
        return web.Response(text="ok")

    async def connect(self) -> Connection:
        connection = await asyncio.open_connection("127.0.0.1", self.door.port)
        self.made.append(connection)
        return connection

    async def ask(self, path: str = "/") -> Connection:
        reader, writer = await self.connect()
        writer.write(ASK.replace(b"/", path.encode(), 1))
        if path != "/wait":
            await reader.readuntil(b"ok")
        return reader, writer


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    made = Place()
    await made.door.open("127.0.0.1", 0)
    yield made
    made.go.set()
    for _, writer in made.made:
        writer.close()
    await made.door.close()


async def is_open(place: Place, connection: Connection) -> bool:
    reader, writer = connection
    with contextlib.suppress(ConnectionError):
        writer.write(ASK)
        return b"ok" in await reader.read(1 << 16)
    return False


async def ended(connection: Connection) -> bool:
    with contextlib.suppress(ConnectionError):
        return await connection[0].read() == b""
    return True


async def test_one_connection_too_many_replaces_the_one_that_idles_longest(place: Place) -> None:
    first, second, third = [await place.ask() for _ in range(3)]
    for visitor, since in zip(
        sorted(place.door.visitors, key=lambda one: one.idle_since), (3.0, 1.0, 2.0), strict=True
    ):
        visitor.idle_since = since
    await place.ask()
    assert sorted([await is_open(place, one) for one in (first, second, third)]) == [False, True, True]


async def test_a_client_with_a_credential_outlives_those_without(place: Place) -> None:
    known = await place.ask("/known")
    for _ in range(6):
        await place.ask()
    assert await is_open(place, known)


async def test_a_burst_of_connections_does_not_exceed_the_limit(place: Place) -> None:
    for _ in range(3):
        await place.ask()
    # Made without a step of the event loop: all of them wait when the door accepts the first.
    sockets = [socket.create_connection(("127.0.0.1", place.door.port)) for _ in range(30)]
    burst = [await asyncio.open_connection(sock=one) for one in sockets]
    place.made += burst
    assert sum([await is_open(place, one) for one in burst]) <= 3


async def test_a_connection_in_use_is_never_given_up(place: Place) -> None:
    waiting = [await place.ask("/wait") for _ in range(3)]
    while sum(one.answering for one in place.door.visitors) < 3:
        await asyncio.sleep(0)
    assert await ended(await place.connect())
    place.go.set()
    for reader, _ in waiting:
        assert await reader.readuntil(b"ok")


async def test_a_client_that_never_finishes_its_headers_is_disconnected(place: Place) -> None:
    slow = await place.connect()
    slow[1].write(b"GET / HTTP/1.1\r\nX: ")
    while not place.door.visitors:
        await asyncio.sleep(0)
    over = asyncio.ensure_future(ended(slow))
    while not over.done():
        await place.clock.advance(HEADER_S)
        await asyncio.sleep(0)
    assert await over


async def test_an_address_that_cannot_be_had_is_named(place: Place) -> None:
    other = Door(place._serve, None)
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{place.door.port}: Address already in use"):
        await other.open("127.0.0.1", place.door.port)


async def test_a_closed_door_can_be_opened_elsewhere_at_once(place: Place) -> None:
    await place.ask()
    port = place.door.port
    await place.door.close()
    again = Door(place._serve, None)
    await again.open("127.0.0.1", port)
    assert again.port == port
    await again.close()
