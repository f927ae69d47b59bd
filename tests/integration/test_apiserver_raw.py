"""Bytes that are not HTTP, and unusual HTTP, get a response and leave no traceback in the log."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.store.memory import MemoryStore

TOKEN = b"Authorization: Bearer secret\r\n"
MAPS = b"/api/v1/namespaces/default/configmaps"
SELF = b"/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    tokens = tmp_path / "tokens"
    tokens.write_text("secret,admin,1,system:masters\n")
    server = ApiServer(Config(MemoryStore(), tmp_path, tls=False, token_file=tokens))
    await server.start()
    yield server
    await server.stop()


async def sent(server: ApiServer, data: bytes) -> tuple[int, bytes]:
    """The status and the first piece of the response to raw bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.front.port)
    writer.write(data)
    try:
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.read(4000)
    finally:
        writer.close()
    return int(head.split(b" ", 2)[1]), body


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([line + b" HTTP/1.1", b"Host: a", *headers, length]) + b"\r\n" + TOKEN + b"\r\n" + body


ODD = {
    "connect": request(b"CONNECT 127.0.0.1:80"),
    "connect to a path": request(b"CONNECT /api/v1/namespaces"),
    "connect to exec": request(b"CONNECT /api/v1/namespaces/default/pods/x/exec"),
    "options of everything": request(b"OPTIONS *"),
    "an unknown method": request(b"FOO /api"),
    "bytes in the path": request(b"GET /api/v1/namespaces/\xff/pods"),
    "no UTF-8 in the path": request(b"GET /api/v1/namespaces/%ED%A0%80/pods/%ff"),
    "no UTF-8 in a parameter": request(b"GET /api/v1/pods?labelSelector=%ED%A0%80&limit=%ff"),
    "a long number": request(b"GET /api/v1/pods?limit=" + b"9" * 5000),
    "brotli": request(b"POST " + MAPS, b"Content-Encoding: br", body=b"{}"),
    "broken gzip": request(b"POST " + MAPS, b"Content-Encoding: gzip", body=b"{}"),
    "a gzip bomb": request(b"POST " + MAPS, b"Content-Encoding: gzip", body=gzip.compress(b" " * 100_000_000)),
    "a negative length": b"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n" + TOKEN + b"\r\n",
    "a broken chunk": b"POST "
    + MAPS
    + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    + TOKEN
    + b"\r\nzz\r\n",
    "a long header": request(b"GET /api", b"X: " + b"a" * 100_000),
    "TLS": b"\x16\x03\x01\x00\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a watch by an unknown WebSocket": request(
        b"GET /api/v1/pods?watch=true", b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 99"
    ),
}


@pytest.mark.parametrize("case", ODD)
async def test_an_odd_request_is_answered_with_4xx_and_without_a_traceback(
    server: ApiServer, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        code, _ = await sent(server, ODD[case])
    assert 400 <= code < 500
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("header", [b"Impersonate-User: \xff", b"User-Agent: \xff", b"Accept-Language: \xff"])
async def test_a_header_that_is_not_utf8_can_be_answered(server: ApiServer, header: bytes) -> None:
    body = b'{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
    code, answer = await sent(server, request(b"POST " + SELF, header, b"Connection: close", body=body))
    assert code == 201
    name = json.loads(answer)["status"]["userInfo"]["username"]
    assert name == ("\ufffd" if header.startswith(b"Impersonate") else "admin")


async def test_a_request_may_name_the_whole_address(server: ApiServer) -> None:
    assert (await sent(server, request(b"GET http://a/api/v1/namespaces", b"Connection: close")))[0] == 200
