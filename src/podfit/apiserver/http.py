"""The HTTP front: sockets, TLS, bodies, compression, streams. It knows nothing of kinds.

One catch-all handler; routing is the server's. Request bodies are bounded (413), answers above a size are compressed
when the client can read it, streams are written piece by piece as they come.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, unquote

from aiohttp import WSMsgType, web
from aiohttp.http_exceptions import BadHttpMessage, BadHttpMethod
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict

from podfit.api.status import ApiError
from podfit.apiserver.auth.authenticate import Authenticator
from podfit.apiserver.config import BODY_LIMIT
from podfit.apiserver.relay import Upgraded, first_of
from podfit.apiserver.request import ANONYMOUS, Request, Response
from podfit.apiserver.server import error_response, method_not_allowed
from podfit.kit.addresses import CannotListen

log = logging.getLogger(__name__)
Handle = Callable[[Request], Awaitable[Response]]
_COMPRESS_FROM = 128 * 1024
_CLOSE_S = 2.0
_PATIENCE_S = 60.0
_SLICE = 256 * 1024
_UNREADABLE = (ValueError, asyncio.IncompleteReadError, web.HTTPException, web.RequestPayloadError, BadHttpMessage)
_REQUEST_LINE = re.compile(r"""\n  b['"][!#$%&'*+.^_`|~0-9A-Za-z-]+ \S+ HTTP/""")
"""In the parser's message: a request line that is well-formed but for a method it does not know."""
_READS = frozenset(("GET", "HEAD"))


class HttpFront:
    def __init__(self, handle: Handle, authenticator: Authenticator, context: ssl.SSLContext | None) -> None:
        self._handle, self._authenticator, self._context = handle, authenticator, context
        self._server: web.Server | None = None
        self._listeners: list[asyncio.Server] = []
        self.port = 0
        self.patience_s = _PATIENCE_S
        """How long a client may leave a stream unread while there is something for it."""

    async def start(self, host: str, port: int) -> None:
        self._server = _Server(
            self._serve,  # type: ignore[arg-type]
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=620,
            auto_decompress=True,
            max_line_size=65536,
            max_field_size=65536,
        )
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(self._server, host, port, ssl=self._context, backlog=1024)
        except OSError as error:
            raise CannotListen(host, port, error) from error
        self._listeners.append(listener)
        self.port = listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        for listener in self._listeners:
            listener.close()
        if self._server is not None:
            await self._server.shutdown(_CLOSE_S)
        self._listeners.clear()

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            request = await self._read(http)
        except ApiError as error:
            refusal = _whole(http, error_response(error))
            if http.body_exists and not http.content.at_eof():
                refusal.force_close()
            return refusal
        if request.method in _READS:
            response = await self._handle(request)
        else:
            # A client that hangs up ends its watch at once, but never a write half-way.
            response = await asyncio.shield(asyncio.ensure_future(self._handle(request)))
        if response.stream is not None:
            return await self._stream(http, request, response)
        if isinstance(response, Upgraded):
            return response.made
        return _whole(http, response)

    async def _read(self, http: web.BaseRequest) -> Request:
        raw_path, _, raw_query = http.raw_path.partition("?")
        headers = _headers(http)
        user = self._authenticator.authenticate(headers, _peer(http))
        body = b""
        if http.body_exists:
            try:
                body = await http.read()
            except web.HTTPRequestEntityTooLarge:
                raise too_large() from None
            except _UNREADABLE as error:
                raise ApiError(400, "BadRequest", f"the body could not be read: {error}") from None
        return Request(
            http.method,
            unquote(raw_path) or "/",
            parse_qs(raw_query, keep_blank_values=True) if raw_query else {},
            headers,
            body,
            user or ANONYMOUS,
            http,
        )

    async def _stream(self, http: web.BaseRequest, request: Request, response: Response) -> web.StreamResponse:
        assert response.stream is not None
        if headers_say(request, "upgrade", "websocket"):
            return await _websocket_stream(http, response)
        answer = web.StreamResponse(status=response.status, headers=CIMultiDict(response.headers))
        answer.content_type = response.content_type
        answer.enable_chunked_encoding()
        await answer.prepare(http)
        stream, outlet = response.stream, _Outlet(http, answer, self.patience_s)
        if (lend := getattr(stream, "lend", None)) is not None:
            lend(outlet.take)
        try:
            async for piece in stream:
                await outlet.send(piece)
            outlet.let_go()
            await answer.write_eof()
        except TimeoutError:
            # It takes nothing and holds on to what waits for it; only the connection's end tells it so.
            if http.transport is not None:
                http.transport.abort()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            await _end(stream)
        return answer


class _Outlet:
    """Where a chunked answer leaves: pieces go straight into a connection that has room, the others wait for it."""

    def __init__(self, http: web.BaseRequest, answer: web.StreamResponse, patience_s: float) -> None:
        self._http, self._answer, self._patience_s = http, answer, patience_s
        self._taken: list[bytes] = []
        self._size = 0

    def take(self, piece: bytes) -> bool:
        """Nearly every event of a watch: there is nothing to wait for.

        What is taken in one turn of the loop leaves together at its end: changes come in groups, and each write of
        its own would be a TLS record of its own.
        """
        transport = self._http.transport
        if transport is None or transport.is_closing() or not 0 < len(piece) <= _SLICE - self._size:
            return False
        if transport.get_write_buffer_size():
            return False
        if not self._taken:
            asyncio.get_running_loop().call_soon(self.let_go)
        self._taken.append(piece)
        self._size += len(piece)
        return True

    def let_go(self) -> None:
        taken, self._taken, size, self._size = self._taken, [], self._size, 0
        transport = self._http.transport
        if not taken or transport is None:
            return
        try:
            transport.write(b"%x\r\n%b\r\n" % (size, b"".join(taken)))
        except (RuntimeError, OSError):
            # It was lost this moment; whoever reads the stream finds out by the next piece.
            log.debug("a watcher is gone", exc_info=True)

    async def send(self, piece: bytes) -> None:
        if self.take(piece):
            return
        self.let_go()
        # In slices, because a TLS connection takes whatever is given at once, and says it is full afterwards.
        for start in range(0, len(piece), _SLICE):
            async with asyncio.timeout(self._patience_s):
                await self._answer.write(piece[start : start + _SLICE])


class _Protocol(RequestHandler):
    """Methods HTTP parsers do not know get Kubernetes' answer, too."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if isinstance(exc, BadHttpMethod) and _REQUEST_LINE.search(exc.message):
            return _whole(request, error_response(method_not_allowed()))
        return super().handle_error(request, status, exc, message)


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


async def _end(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


async def _websocket_stream(http: web.BaseRequest, response: Response) -> web.StreamResponse:
    """A watch over WebSocket: an event a text message."""
    socket = web.WebSocketResponse(heartbeat=30)
    await socket.prepare(http)
    stream = response.stream
    assert stream is not None
    try:
        await first_of(_until_closed(socket), _send_events(socket, stream))
    finally:
        await _end(stream)
        await socket.close()
    return socket


async def _send_events(socket: web.WebSocketResponse, stream: AsyncIterator[bytes]) -> None:
    async for piece in stream:
        for line in piece.splitlines():
            await socket.send_str(line.decode())


async def _until_closed(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        if message.type in (WSMsgType.ERROR, WSMsgType.CLOSE):
            return


def _request(
    message: Any, payload: Any, protocol: RequestHandler, writer: Any, task: asyncio.Task[None]
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT + 1)


def _headers(http: web.BaseRequest) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key, value in http.headers.items():
        name = key.lower()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def _peer(http: web.BaseRequest) -> Any:
    transport = http.transport
    return None if transport is None else transport.get_extra_info("peercert")


def headers_say(request: Request, name: str, word: str) -> bool:
    return word in request.headers.get(name, "").lower()


def too_large() -> ApiError:
    return ApiError(
        413,
        "RequestEntityTooLarge",
        f"Request entity too large: limit is {BODY_LIMIT}",
        {},
    )


def _whole(http: web.BaseRequest, response: Response) -> web.Response:
    body = response.body
    answer = web.Response(status=response.status)
    headers = answer.headers
    headers["Content-Type"] = response.content_type
    headers["Cache-Control"] = "no-cache, private"
    for key, value in response.headers:
        headers.add(key, value)
    if len(body) >= _COMPRESS_FROM and "gzip" in http.headers.get("Accept-Encoding", ""):
        body = gzip.compress(body, compresslevel=1)
        headers["Content-Encoding"] = "gzip"
        headers["Vary"] = "Accept-Encoding"
    answer.body = body
    return answer
