"""Clients that misbehave on the connection: the server responds or closes it, and other clients are not affected."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from podfit.apiserver.app import ApiServer
from podfit.apiserver.auth.certs.certificates import Pair
from podfit.apiserver.config import BODY_LIMIT, Config
from podfit.apiserver.request import ADMIN, Request
from podfit.apiserver.storage import events
from podfit.store.memory import MemoryStore

MAPS = "/api/v1/namespaces/default/configmaps"
Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    made = ApiServer(Config(MemoryStore(), tmp_path / "data"))
    await made.start()
    yield made
    await made.stop()


def trusting(server: ApiServer, pair: Pair, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=server.pki.ca.decode())
    (folder / "client.crt").write_bytes(pair.cert)
    (folder / "client.key").write_bytes(pair.key)
    context.load_cert_chain(folder / "client.crt", folder / "client.key")
    return context


@pytest.fixture
def context(server: ApiServer, tmp_path: Path) -> ssl.SSLContext:
    return trusting(server, server.pki.admin, tmp_path)


@pytest.fixture
async def admin(server: ApiServer, context: ssl.SSLContext) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url, connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session


async def dial(server: ApiServer, context: ssl.SSLContext) -> Wire:
    return await asyncio.open_connection("127.0.0.1", server.front.port, ssl=context)


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Everything the server sends before it closes the connection."""
    received = b""
    async with asyncio.timeout(10):
        try:
            while piece := await reader.read(65536):
                received += piece
        except (ConnectionError, ssl.SSLError):
            pass
    return received


async def works(admin: aiohttp.ClientSession) -> bool:
    async with asyncio.timeout(10), admin.get(MAPS) as answer:
        return answer.status == 200


async def make(server: ApiServer, name: str, **data: str) -> int:
    body = json.dumps({"metadata": {"name": name}, "data": data}).encode()
    return (await server.handle(Request("POST", MAPS, {}, {}, body, ADMIN))).status


# --- bodies -------------------------------------------------------------------------------------------------------


async def test_a_chunked_body_above_the_limit_is_refused_too(server: ApiServer, admin: aiohttp.ClientSession) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(BODY_LIMIT // 65536 + 2):
            yield b"x" * 65536

    before = server.config.store.revision
    async with admin.post(MAPS, data=pieces()) as answer:
        assert answer.status == 413
        assert (await answer.json())["reason"] == "RequestEntityTooLarge"
    assert server.config.store.revision == before


async def test_a_body_is_never_unpacked(admin: aiohttp.ClientSession) -> None:
    """Kubernetes does not decompress bodies either: it reads them as they are."""
    bomb = gzip.compress(b" " * (20 * BODY_LIMIT))
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with admin.post(MAPS, data=bomb, headers=headers) as answer:
        assert answer.status == 400


@pytest.mark.parametrize(
    ("method", "media"),
    [("POST", "text/plain"), ("POST", "application/xml"), ("PATCH", "application/json"), ("PATCH", "text/plain")],
)
async def test_other_content_types_are_not_supported(admin: aiohttp.ClientSession, method: str, media: str) -> None:
    path = MAPS if method == "POST" else "/api/v1/namespaces/default"
    async with admin.request(method, path, data=b"{}", headers={"Content-Type": media}) as answer:
        assert answer.status == 415
        assert (await answer.json())["reason"] == "UnsupportedMediaType"


@pytest.mark.parametrize("method", ["FOO", "TRACE", "PROPFIND"])
async def test_unknown_methods_are_not_allowed(admin: aiohttp.ClientSession, method: str) -> None:
    async with admin.request(method, MAPS) as answer:
        assert answer.status == 405
        assert (await answer.json())["code"] == 405


HEAD = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
BROKEN = {
    "a chunk's size that is no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a chunk longer than it said": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n{}",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length that is no number": HEAD + b"Content-Length: many\r\n\r\n{}",
    "gzip that is none": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    "a header without a name": b"GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n",
    "a header with a line feed inside": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\nC\r\n\r\n",
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    "another protocol's version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "a first line without end": b"GET /" + b"a" * 200_000,
    "headers without end": b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 200_000,
}


@pytest.mark.parametrize("words", BROKEN)
async def test_malformed_http_is_refused_without_affecting_others(
    server: ApiServer, context: ssl.SSLContext, admin: aiohttp.ClientSession, words: str
) -> None:
    before = server.config.store.revision
    reader, writer = await dial(server, context)
    writer.write(BROKEN[words])
    async with asyncio.timeout(10):
        line = await reader.readline()
    assert line.split(b" ")[1:2] == [b"400"], line
    writer.close()
    assert await works(admin)
    assert server.config.store.revision == before


async def test_a_body_cut_short_writes_nothing(
    server: ApiServer, context: ssl.SSLContext, admin: aiohttp.ClientSession
) -> None:
    before = server.config.store.revision
    _, writer = await dial(server, context)
    writer.write(HEAD + b'Content-Length: 500\r\n\r\n{"metadata": {"name": "half"}}')
    await writer.drain()
    writer.transport.abort()
    assert await works(admin)
    assert server.config.store.revision == before


async def test_garbage_behind_a_request_ends_the_connection(
    server: ApiServer, context: ssl.SSLContext, admin: aiohttp.ClientSession
) -> None:
    reader, writer = await dial(server, context)
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\nGARBAGE\x00\xff\r\n\r\n")
    received = await until_closed(reader)
    assert received.split(b"HTTP/1.")[-1][2:5] == b"400"
    writer.close()
    assert await works(admin)


async def test_pipelined_requests_are_answered_in_order(server: ApiServer, context: ssl.SSLContext) -> None:
    reader, writer = await dial(server, context)
    paths = ["/version", "/api/v1/nope", "/readyz"]
    for at, path in enumerate(paths):
        last = b"Connection: close\r\n" if at == len(paths) - 1 else b""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n".encode() + last + b"\r\n")
    received = await until_closed(reader)
    assert [part[1:4] for part in received.split(b"HTTP/1.1")[1:]] == [b"200", b"404", b"200"]
    writer.close()


async def test_many_slow_senders_delay_no_other_client(
    server: ApiServer, context: ssl.SSLContext, admin: aiohttp.ClientSession
) -> None:
    wires = [await dial(server, context) for _ in range(50)]
    for at, (_, writer) in enumerate(wires):
        writer.write(b"GET /version HTTP/1.1\r\nHos" if at % 2 else HEAD + b"Content-Length: 100\r\n\r\n{")
        await writer.drain()
    while server.core.seats.bodies.in_flight < 25:
        await asyncio.sleep(0)
    assert await works(admin)
    async with admin.post(MAPS, json={"metadata": {"name": "quick"}}) as answer:
        assert answer.status == 201
    assert server.core.seats.bodies.in_flight == 25, "answered before any of the slow ones was given up"
    for _, writer in wires:
        writer.transport.abort()


# --- identities ---------------------------------------------------------------------------------------------------


async def test_an_expired_client_certificate_is_unauthorized(server: ApiServer, tmp_path: Path) -> None:
    pair = server.pki.issue_client_cert("old", ("system:masters",), timedelta(seconds=-1))
    async with aiohttp.ClientSession(
        server.url, connector=aiohttp.TCPConnector(ssl=trusting(server, pair, tmp_path))
    ) as late:
        async with late.get("/version") as answer:
            assert answer.status == 401
            assert (await answer.json())["reason"] == "Unauthorized"


async def test_a_certificate_of_another_authority_is_not_let_in(server: ApiServer, tmp_path: Path) -> None:
    other = ApiServer(Config(MemoryStore(), tmp_path / "other"))
    pair = other.pki.issue_client_cert("stranger", ("system:masters",))
    async with aiohttp.ClientSession(
        server.url, connector=aiohttp.TCPConnector(ssl=trusting(server, pair, tmp_path))
    ) as stranger:
        with pytest.raises(aiohttp.ClientError):
            await stranger.get("/version")


# --- slow watchers ------------------------------------------------------------------------------------------------


async def test_a_watcher_that_falls_behind_has_to_list_again(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BUFFER", 20)
    query = {"watch": ["true"], "resourceVersion": [str(server.config.store.revision)]}
    answer = await server.handle(Request("GET", MAPS, query, {}, b"", ADMIN))
    assert answer.stream is not None
    assert await make(server, "first") == 201
    assert json.loads(await anext(answer.stream))["type"] == "ADDED"
    for at in range(40):
        assert await make(server, f"m{at}") == 201
    await caught_up(server)
    said = [json.loads(piece) async for piece in answer.stream]
    assert [(event["type"], event["object"]["code"]) for event in said] == [("ERROR", 410)]
    assert said[0]["object"]["reason"] == "Expired"


async def caught_up(server: ApiServer) -> None:
    async with asyncio.timeout(10):
        while server.hub.seen < server.config.store.revision:
            await asyncio.sleep(0)


async def test_a_watcher_that_never_reads_is_closed_and_delays_no_other(
    server: ApiServer, context: ssl.SSLContext, admin: aiohttp.ClientSession
) -> None:
    server.front.timeout_s = 0.2
    reader, writer = await dial(server, context)
    request = f"GET {MAPS}?watch=true&resourceVersion={server.config.store.revision} HTTP/1.1\r\nHost: x\r\n\r\n"
    writer.write(request.encode())
    async with asyncio.timeout(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    async with admin.get(MAPS, params={"watch": "true", "resourceVersion": "0"}) as good:
        seen = asyncio.ensure_future(read_names(good, 150))
        for at in range(150):
            assert await make(server, f"m{at}", text="x" * 100_000) == 201
        async with asyncio.timeout(20):
            assert await seen == [f"m{at}" for at in range(150)]
            while len(list(server.hub.watchers())) > 1:
                await asyncio.sleep(0.02)
    received = await until_closed(reader)
    assert len(received) < 150 * 100_000, "it was sent everything, so it was never cut off"
    writer.close()


async def read_names(stream: aiohttp.ClientResponse, count: int) -> list[str]:
    names: list[str] = []
    rest = b""
    while len(names) < count:
        *lines, rest = (rest + await stream.content.readany()).split(b"\n")
        for line in lines:
            event: Any = json.loads(line)
            if event["type"] == "ADDED" and event["object"]["metadata"]["name"].startswith("m"):
                names.append(event["object"]["metadata"]["name"])
    return names
