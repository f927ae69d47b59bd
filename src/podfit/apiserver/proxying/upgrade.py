"""Forwards upgraded connections as bytes: SPDY for exec, attach and port-forward, any protocol for proxies.

The target is dialled first. If it accepts the upgrade, the client gets a 101 with the target's headers; a rejection is
returned like any response. The data sent afterwards is not inspected.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web
from multidict import CIMultiDict

from podfit.apiserver.auth.authenticate import without_bearer
from podfit.apiserver.proxying.dialing import why_not
from podfit.apiserver.proxying.relay import Upgraded, first_of
from podfit.apiserver.request import Request, Response
from podfit.kit.web.takeover import take_over

_DIAL_S = 10.0
_PIECE = 64 * 1024
_MOST_OF_A_REFUSAL = 1 << 20
_OURS = ("host", "authorization", "content-length", "transfer-encoding", "keep-alive")
"""Headers that concern only the connection between the client and the API server, which the target authenticates by
certificate.
"""


class NoAnswer(Exception):
    """The target cannot be reached, or does not speak HTTP."""


def wanted(request: Request) -> bool:
    return "upgrade" in request.headers.get("connection", "").lower() and bool(request.headers.get("upgrade"))


async def pass_on(request: Request, url: str, context: ssl.SSLContext | None) -> Response:
    http: web.BaseRequest = request.upgrade
    try:
        async with asyncio.timeout(_DIAL_S):
            reader, writer = await _dial(url, context)
            writer.write(_head(http, url) + request.body)
            answer = await _read_head(reader)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise NoAnswer(_words(url, error)) from None
    try:
        if answer.status < 400 and answer.status != 101:
            # Neither an acceptance nor a rejection; redirects in particular are not forwarded.
            raise NoAnswer(f"invalid upgrade response: status code {answer.status}")
        if answer.status != 101:
            return await _refusal(answer, reader)
        made, client, to_client = await take_over(http, answer.headers)
        await _both_ways((client, writer), (reader, to_client))
        return Upgraded(101, made=made)
    finally:
        writer.close()


def _words(url: str, error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {urlsplit(url).netloc}: connect: connection refused"
    if isinstance(error, asyncio.IncompleteReadError):
        return "EOF"
    return why_not(error)


async def _dial(url: str, context: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    return await asyncio.open_connection(parts.hostname, port, ssl=context if secure else None)


def _head(http: web.BaseRequest, url: str) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{http.method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    for name, value in http.headers.items():
        if name.lower() == "sec-websocket-protocol":
            value = without_bearer(value)
        if value and name.lower() not in _OURS and not name.lower().startswith(("impersonate-", "x-remote-")):
            lines.append(f"{name}: {value}")
    if http.body_exists or http.method != "GET":
        lines.append(f"Content-Length: {http.content_length or 0}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class _Head:
    status: int
    headers: CIMultiDict[str]


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("utf-8", "surrogateescape").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"malformed HTTP response {first[:100]!r}")
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers.add(name.strip(), value.strip())
    return _Head(int(rest[:3]), headers)


async def _refusal(head: _Head, reader: asyncio.StreamReader) -> Response:
    body, headers = b"", head.headers
    with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError, OSError):
        async with asyncio.timeout(_DIAL_S):
            if "chunked" in headers.get("Transfer-Encoding", "").lower():
                while (size := int(await reader.readline(), 16)) and len(body) < _MOST_OF_A_REFUSAL:
                    body += (await reader.readexactly(size + 2))[:-2]
            elif "Content-Length" in headers:
                body = await reader.readexactly(min(int(headers["Content-Length"]), _MOST_OF_A_REFUSAL))
            else:
                body = await reader.read(_MOST_OF_A_REFUSAL)
    return Response(head.status, body, headers.get("Content-Type", "text/plain; charset=utf-8"))


Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _both_ways(*ways: Way) -> None:
    """Copies bytes in both directions until either side closes; data received until then is still delivered."""
    try:
        await first_of(*(_pump(*way) for way in ways))
    finally:
        for _, writer in ways:
            writer.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError):
        while piece := await source.read(_PIECE):
            sink.write(piece)
            await sink.drain()
