"""The HTTP front end of the API server: sockets, TLS, bodies, compression, streams. Independent of kinds.

One catch-all handler passes requests to `server`, which routes them. Request bodies are limited (413), responses above
a size are compressed if the client accepts it, streams are written chunk by chunk.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, BadHttpMethod
from multidict import CIMultiDict

from podfit.api.status import ApiError
from podfit.apiserver.auth.authenticate import Authenticator
from podfit.apiserver.config import BODY_LIMIT
from podfit.apiserver.front.sending import put_headers, send_long
from podfit.apiserver.front.turns import Turns
from podfit.apiserver.front.websockets import send_log, send_watch
from podfit.apiserver.protobufs.form import STREAM_TYPE
from podfit.apiserver.proxying.relay import Upgraded
from podfit.apiserver.request import ANONYMOUS, Request, Response
from podfit.apiserver.server import error_response, method_not_allowed
from podfit.kit.web.listener import Connection, HttpListener, limited_requests

log = logging.getLogger(__name__)
Handle = Callable[[Request], Awaitable[Response]]
_IDENTITY = ("impersonate-", "x-remote-")
_LONG = 128 * 1024
_TIMEOUT_S = 60.0
_SLICE = 256 * 1024
_UNREADABLE = (
    *(ValueError, asyncio.IncompleteReadError, web.HTTPException, web.RequestPayloadError, BadHttpMessage),
    ConnectionError,
)
_REQUEST_LINE = re.compile(r"""\n  b['"][!#$%&'*+.^_`|~0-9A-Za-z-]+ \S+ HTTP/""")
"""Matches the parser's message for a request line whose only fault is an unknown method."""


class HttpFront:
    def __init__(
        self, handle: Handle, authenticator: Authenticator, context: ssl.SSLContext | None, turns: Turns
    ) -> None:
        self._handle, self._authenticator, self._context, self._turns = handle, authenticator, context, turns
        self._listener: HttpListener | None = None
        self.timeout_s = _TIMEOUT_S
        """How long a client may leave available stream data unread."""

    @property
    def port(self) -> int:
        return 0 if self._listener is None else self._listener.port

    async def start(self, host: str, port: int) -> None:
        self._listener = HttpListener(
            self._serve,
            self._context,
            connection=_Connection,
            request_factory=limited_requests(BODY_LIMIT + 1),
            handler_cancellation=True,
            auto_decompress=False,
            max_line_size=65536,
            max_field_size=65536,
        )
        await self._listener.open(host, port)

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            request = self._read(http)
        except ApiError as error:
            return _closing(http, _short(http, error_response(error)))
        await self._turns.enter(request)
        try:
            if request.reads:
                response = await self._handle(request)
            else:
                # A client that disconnects ends its watch at once, but never interrupts a write.
                response = await asyncio.shield(asyncio.ensure_future(self._handle(request)))
        finally:
            self._turns.leave(request)
        if response.stream is not None:
            return await self._stream(http, request, response)
        if isinstance(response, Upgraded):
            return response.made
        if response.pieces is None and len(response.body) < _LONG:
            return _closing(http, _short(http, response))
        try:
            return await send_long(http, response, self.timeout_s)
        finally:
            if response.on_sent is not None:
                response.on_sent()

    def _read(self, http: web.BaseRequest) -> Request:
        """Reads a request without its body, which is read once the client is authorized."""
        raw_path, _, raw_query = http.raw_path.partition("?")
        if raw_path[:1] != "/":
            raw_path = urlsplit(raw_path).path
        path = unquote(raw_path)
        headers = _headers(http)
        user = self._authenticator.authenticate(headers, _peer(http))
        named = user is not None and user is not ANONYMOUS
        if named and isinstance(http.protocol, Connection):
            http.protocol.trusted = True
        return Request(
            http.method,
            path if path.startswith("/") else f"/{path}",
            parse_qs(raw_query, keep_blank_values=True) if raw_query else {},
            headers,
            user=user or ANONYMOUS,
            upgrade=http,
            arriving=partial(_body, http, self.timeout_s) if http.body_exists else None,
            client=user.name if named else f"{ANONYMOUS.name} {http.remote}",
        )

    async def _stream(self, http: web.BaseRequest, request: Request, response: Response) -> web.StreamResponse:
        assert response.stream is not None
        try:
            if has_header_word(request, "upgrade", "websocket"):
                if response.content_type.startswith("text/plain"):
                    return await send_log(http, response.stream)
                return await send_watch(http, response.stream, response.content_type == STREAM_TYPE)
            return await self._chunked_stream(http, response, response.stream)
        except ConnectionError:
            # The client disconnected before it got the response; this empty one is never sent.
            return web.Response()
        finally:
            await _end(response.stream)

    async def _chunked_stream(
        self, http: web.BaseRequest, response: Response, stream: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        answer = web.StreamResponse(status=response.status, headers=CIMultiDict(response.headers))
        answer.content_type = response.content_type
        answer.enable_chunked_encoding()
        await answer.prepare(http)
        outlet = _ChunkWriter(http, answer, self.timeout_s)
        if (write_to := getattr(stream, "write_to", None)) is not None:
            write_to(outlet.take)
        try:
            async for piece in stream:
                await outlet.send(piece)
            outlet.flush_held()
            await answer.write_eof()
        except TimeoutError:
            # The client does not read; only closing the connection frees the buffered data.
            if http.transport is not None:
                http.transport.abort()
        except (ConnectionError, asyncio.CancelledError):
            pass
        return answer


class _ChunkWriter:
    """The writer of a chunked response: writes chunks directly to a connection with an empty buffer, and waits
    otherwise.
    """

    def __init__(self, http: web.BaseRequest, answer: web.StreamResponse, timeout_s: float) -> None:
        self._http, self._answer, self._timeout_s = http, answer, timeout_s
        self._taken: list[bytes] = []
        self._size = 0

    def take(self, piece: bytes) -> bool:
        """Writes an event without waiting, which is possible for almost every event of a watch.

        Chunks written in one iteration of the loop are sent together at its end: changes arrive in groups, and each
        separate write would become a TLS record of its own.
        """
        transport = self._http.transport
        if transport is None or transport.is_closing() or not 0 < len(piece) <= _SLICE - self._size:
            return False
        if transport.get_write_buffer_size():
            return False
        if not self._taken:
            asyncio.get_running_loop().call_soon(self.flush_held)
        self._taken.append(piece)
        self._size += len(piece)
        return True

    def flush_held(self) -> None:
        taken, self._taken, size, self._size = self._taken, [], self._size, 0
        transport = self._http.transport
        if not taken or transport is None:
            return
        try:
            transport.write(b"%x\r\n%b\r\n" % (size, b"".join(taken)))
        except (RuntimeError, OSError):
            # The connection was lost meanwhile; the reader of the stream notices at the next chunk.
            log.debug("a watcher is gone", exc_info=True)

    async def send(self, piece: bytes) -> None:
        if self.take(piece):
            return
        self.flush_held()
        # Data is written in slices, because a TLS connection buffers all of a write before it applies back-pressure.
        for start in range(0, len(piece), _SLICE):
            async with asyncio.timeout(self._timeout_s):
                await self._answer.write(piece[start : start + _SLICE])


class _Connection(Connection):
    """A connection that answers methods unknown to the HTTP parser with Kubernetes' error."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if isinstance(exc, BadHttpMethod) and _REQUEST_LINE.search(exc.message):
            return _short(request, error_response(method_not_allowed()))
        return super().handle_error(request, status, exc, message)


async def _end(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def _headers(http: web.BaseRequest) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key, value in http.headers.items():
        name = key.lower()
        if not value.isascii():
            # Invalid UTF-8 arrives as surrogates, which cannot be encoded again.
            value = value.encode(errors="surrogateescape").decode(errors="replace")
        if name not in headers:
            headers[name] = value
        else:
            # Names of groups may contain commas, but no header can contain a newline.
            headers[name] += ("\n" if name.startswith(_IDENTITY) else ",") + value
    return headers


def _peer(http: web.BaseRequest) -> Any:
    transport = http.transport
    return None if transport is None else transport.get_extra_info("peercert")


def has_header_word(request: Request, name: str, word: str) -> bool:
    return word in request.headers.get(name, "").lower()


def too_large() -> ApiError:
    return ApiError(
        413,
        "RequestEntityTooLarge",
        f"Request entity too large: limit is {BODY_LIMIT}",
        {},
    )


async def _body(http: web.BaseRequest, timeout_s: float) -> bytes:
    try:
        async with asyncio.timeout(timeout_s):
            return await http.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large() from None
    except TimeoutError:
        why = "Timeout: request did not complete within the allotted timeout"
        raise ApiError(504, "Timeout", why) from None
    except _UNREADABLE as error:
        # aiohttp's stream references its error, whose traceback references the frame with the data and the stream.
        error.__traceback__ = None
        raise ApiError(400, "BadRequest", f"the body could not be read: {error}") from None


def _closing(http: web.BaseRequest, answer: web.Response) -> web.Response:
    """Closes the connection if unread data would otherwise be parsed as a request: the rest of a body, or data that a
    client sends after a rejected upgrade."""
    if (http.body_exists and not http.content.at_eof()) or "Upgrade" in http.headers:
        answer.force_close()
    return answer


def _short(http: web.BaseRequest, response: Response) -> web.Response:
    answer = web.Response(status=response.status)
    put_headers(answer, response)
    answer.body = response.body
    return answer
