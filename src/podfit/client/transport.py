"""Sends requests to an API server as bytes: over HTTPS, or directly to a server in this process.

This layer deals with methods, paths and bytes only; `rest` adds kinds and objects.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
import msgspec

from podfit.api.objects import Object
from podfit.client.connection_errors import connection_error

Query = Mapping[str, str | list[str]]
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_LEFT_OPEN_S = 60.0
"""How long connections with a previous certificate may stay open."""


def load_pair(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    """Loads a certificate and its key. In a TLS context that is in use, they take effect for new connections."""
    # Python's ssl module accepts files only; they exist in a private folder for the duration of the call.
    with tempfile.TemporaryDirectory() as folder:
        cert_file, key_file = Path(folder, "cert.pem"), Path(folder, "key.pem")
        cert_file.write_bytes(cert)
        key_file.touch(0o600)
        key_file.write_bytes(key)
        context.load_cert_chain(cert_file, key_file)


class ClientRequest(msgspec.Struct, frozen=True):
    """One request, as passed from one transport wrapper to the next."""

    method: str
    path: str
    query: Query | None = None
    body: bytes | Object | None = None
    """For a server in this process: the decoded object, which it reads before it responds and does not retain."""
    content_type: str = ""
    headers: Mapping[str, str] | None = None
    """Additional headers."""


class Reply(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: Mapping[str, str] = _NO_HEADERS
    shared: Object | None = None
    """The decoded object of a server in this process, instead of a body. Shared: read only."""


@dataclass(slots=True)
class Stream:
    """A streaming response: `chunks` yields bytes as they arrive, not aligned to lines."""

    status: int
    chunks: AsyncIterator[bytes]
    subscribe: Callable[[Callable[[str, Any], None]], None] | None = None
    """If the server is in this process, it passes events (type and object, shared and without managedFields) to this
    callback, in order. Chunks contain the rest: the present state if it was requested, bookmarks, errors."""


class Unreachable(Exception):
    """The server did not respond: retry later. (A rejected request is an ApiError instead.)"""


class Transport(Protocol):
    async def request(self, request: ClientRequest) -> Reply: ...

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[Stream]: ...

    async def close(self) -> None: ...


def _target(request: ClientRequest) -> str:
    return f"{request.path}?{urlencode(request.query, doseq=True)}" if request.query else request.path


class HttpTransport:
    """Keep-alive HTTPS to one server, with as many connections as requests in flight."""

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None = None,
        token: str = "",
        token_file: str = "",
        timeout_s: float = 60.0,
        user_agent: str = "podfit",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.server = server.rstrip("/")
        self.tls = tls
        self._token, self._token_file = token, token_file
        self._timeout_s = timeout_s
        self._headers = {"User-Agent": user_agent, "Accept": "application/json", **(headers or {})}
        self._session: aiohttp.ClientSession | None = None
        self._closing: list[asyncio.Task[None]] = []
        self._outage = self._outage_seen = False

    def show_certificate(self, cert: bytes, key: bytes) -> None:
        """Uses this client certificate for new connections; existing ones may finish their requests."""
        assert self.tls is not None
        load_pair(self.tls, cert, key)
        if self._session is not None:
            self._closing.append(asyncio.create_task(_close_later(self._session)))
            self._session = None

    def new_outage(self) -> bool:
        """True once per outage of the server, so that only one of several waiters logs it."""
        found = self._outage and not self._outage_seen
        self._outage_seen = self._outage_seen or found
        return found

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self.tls if self.tls is not None else True, limit=0, keepalive_timeout=60
            )
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    def _answered(self) -> None:
        if self._outage:
            self._outage = self._outage_seen = False

    def _unreachable(self, request: ClientRequest, error: Exception) -> Unreachable:
        self._outage = True
        return Unreachable(connection_error(self.server, error, f"{request.method} {request.path}", self._timeout_s))

    def auth_headers(self) -> dict[str, str]:
        token = self._token
        if self._token_file:
            # Mounted service-account tokens rotate: read the file each time, it is small and cached by the kernel.
            with open(self._token_file) as file:
                token = file.read().strip()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _sent(self, request: ClientRequest) -> dict[str, str]:
        typed = {"Content-Type": request.content_type} if request.content_type else {}
        return {**self._headers, **self.auth_headers(), **typed, **(request.headers or {})}

    async def request(self, request: ClientRequest) -> Reply:
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        try:
            async with self.session.request(
                request.method,
                self.server + _target(request),
                data=request.body,
                headers=self._sent(request),
                timeout=timeout,
            ) as answer:
                body = await answer.read()
                self._answered()
                return Reply(answer.status, body, answer.headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(request, error) from error

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncIterator[Stream]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s)
        try:
            async with self.session.request(
                request.method,
                self.server + _target(request),
                data=request.body,
                headers=self._sent(request),
                timeout=timeout,
                read_bufsize=2**20,
            ) as answer:
                self._answered()
                yield Stream(answer.status, answer.content.iter_any())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(request, error) from error

    async def close(self) -> None:
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _close_later(session: aiohttp.ClientSession) -> None:
    """Closes the session after a delay, or at once when cancelled."""
    try:
        await asyncio.sleep(_LEFT_OPEN_S)
    finally:
        await session.close()


class LocalAnswer(Protocol):
    """The response of a server in this process."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...
    @property
    def headers(self) -> Sequence[tuple[str, str]]: ...
    @property
    def stream(self) -> AsyncIterator[bytes] | None: ...
    @property
    def shared(self) -> Object | None: ...


LocalCall = Callable[[str, str, dict[str, list[str]], Mapping[str, str], bytes | Object], Awaitable[LocalAnswer]]
"""(method, path, query, lower-case headers, body) → response; the composer binds it to a server and a user."""


class LocalTransport:
    """Calls a server in the same process: no sockets, no TLS, the same responses."""

    def __init__(self, call: LocalCall, user_agent: str = "podfit", shares: bool = False) -> None:
        """`shares`: watches and writes return the server's objects, shared: read only."""
        self._call, self.shares = call, shares
        headers = {"user-agent": user_agent, "accept": "application/json"}
        self._headers = {"": headers}
        """Headers by content type, so that requests without additional headers share a dict."""

    def _answer(self, request: ClientRequest) -> Awaitable[LocalAnswer]:
        listed = {}
        if request.query:
            listed = {key: [value] if isinstance(value, str) else list(value) for key, value in request.query.items()}
        sent = self._typed(request.content_type)
        if request.headers:
            sent = {**sent, **{key.lower(): value for key, value in request.headers.items()}}
        return self._call(request.method, request.path, listed, sent, b"" if request.body is None else request.body)

    def _typed(self, content_type: str) -> dict[str, str]:
        known = self._headers.get(content_type)
        if known is None:
            known = self._headers[content_type] = {**self._headers[""], "content-type": content_type}
        return known

    async def request(self, request: ClientRequest) -> Reply:
        answer = await self._answer(request)
        data, headers = answer.body, answer.headers
        if answer.stream is not None:
            data += b"".join([chunk async for chunk in answer.stream])
        return Reply(answer.status, data, dict(headers) if headers else _NO_HEADERS, answer.shared)

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncIterator[Stream]:
        answer = await self._answer(request)
        source = answer.stream if answer.stream is not None else _once(answer.body)
        try:
            yield Stream(answer.status, source, getattr(source, "subscribe", None))
        finally:
            closing = getattr(source, "aclose", None)
            if closing is not None:
                await closing()

    async def close(self) -> None:
        await asyncio.sleep(0)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
