"""An HTTP listener that clients cannot exhaust.

It accepts connections itself, so that it can count them from the moment they are accepted, TLS handshake included. It
reserves file descriptors for the rest of the process; when the others are used up, a new connection replaces the one
that has been idle longest, unauthenticated clients first. A client that does not finish its handshake or its first
request in time is disconnected, and so is one that stays idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.addresses import CannotListen

log = logging.getLogger(__name__)
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HANDSHAKE_S = 10.0
HEADER_S = 32.0
IDLE_S = 90.0
"""The last two are those of kube-apiserver: for the headers of a first request, and between two requests."""
LARGEST_MESSAGE = 4 << 20
"""Bytes of a WebSocket message, decompressed: clients that send longer ones are disconnected. kubectl's have 32 KiB."""
_CLOSE_S = 2.0
_SWEEP_S = 5.0
_RETRY_S = 0.1
_HURRY_S = 1.0
"""How long a handshake may take while other connections wait for its slot."""
_LEAST_RESERVE = 128
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """The subject of a certificate that TLS has verified; "" if there is none."""
    parts = (certificate or {}).get("subject", ())
    return next((value for part in parts for key, value in part if key == "commonName"), "")


def connections_allowed() -> int:
    """The connections that one listener may hold, out of the file descriptors that this process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return 1 << 20
    return max(16, soft - max(_LEAST_RESERVE, soft // 3))


def side_listener_limit() -> int:
    """The limit of connections for a listener in addition to the main one of a process."""
    return max(16, connections_allowed() // 8)


def limited_requests(size: int) -> Callable[..., web.BaseRequest]:
    """A `request_factory` for requests of at most `size` bytes; a larger body is rejected with 413."""

    def made(
        message: Any, payload: Any, protocol: RequestHandler, writer: Any, task: asyncio.Task[None]
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=size)

    return made


async def _resolved(host: str | None, port: int) -> list[Any]:
    """Resolves numeric addresses in place; only a name needs a thread."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)


class Connection(RequestHandler):
    """One HTTP connection of a `Listener`, with the state by which idle connections are chosen for closing."""

    trusted = False
    """Whether its client has authenticated."""

    def __init__(self, listener: HttpListener, server: web.Server, **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._listener = listener
        self.answering = 0
        self.has_request = False
        self.idle_since = listener.now()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._listener.connections.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._listener.connections.discard(self)
        super().connection_lost(exc)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Logs input that is not HTTP as a debug message: it is the client's error, not the server's."""
        error = kw.get("exc_info") or sys.exc_info()[1]
        if isinstance(error, (HttpProcessingError, web.RequestPayloadError)):
            log.debug("a client sent a request that cannot be read: %s", error)
        else:
            super().log_exception(*args, **kw)

    def begin(self) -> None:
        self.answering += 1
        self.has_request = True

    def end(self) -> None:
        self.answering -= 1
        self.idle_since = self._listener.now()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class _Server(web.Server):
    def __init__(
        self, listener: HttpListener, connection: type[Connection], handler: Handler, options: dict[str, Any]
    ) -> None:
        super().__init__(
            handler,  # type: ignore[arg-type]
            request_factory=options.pop("request_factory", None),
            handler_cancellation=options.pop("handler_cancellation", False),
        )
        self._listener, self._connection, self._options = listener, connection, options

    def __call__(self) -> RequestHandler:
        return self._connection(self._listener, self, **self._options)


class HttpListener:
    def __init__(
        self,
        handler: Handler,
        tls: ssl.SSLContext | None,
        *,
        limit: int = 0,
        connection: type[Connection] = Connection,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        """`limit`: the most connections; 0 derives it from the descriptors that the process may open. `options` are
        those of aiohttp's protocol."""
        self._tls, self._clock = tls, clock or RealClock()
        self.limit = limit or connections_allowed()
        self.connections: set[Connection] = set()
        self._handler, self._connection = handler, connection
        self._options = {"access_log": None, "keepalive_timeout": IDLE_S, "lingering_time": _CLOSE_S, **options}
        self._server: _Server | None = None
        self._sockets: list[socket.socket] = []
        self._entering: dict[socket.socket, float] = {}
        self._tasks = Tasks("connections")
        self.port = 0

    def now(self) -> float:
        return self._clock.monotonic()

    async def open(self, host: str, port: int) -> None:
        """Starts to listen on `host`, or on all addresses if that is empty. Raises CannotListen."""
        self._server = _Server(self, self._connection, self._count(self._handler), dict(self._options))
        try:
            await self._bind(host, port)
        except OSError as error:
            self._close_sockets()
            raise CannotListen(host, port, error) from error
        for sock in self._sockets:
            self._tasks.start(self._accept(sock), "accept")
        self._tasks.start(self._sweep(), "sweep")

    async def _bind(self, host: str, port: int) -> None:
        for family, kind, protocol, _, address in dict.fromkeys(await _resolved(host or None, port)):
            sock = socket.socket(family, kind, protocol)
            self._sockets.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # A name with several addresses gets one port, even if the port is picked automatically.
            sock.bind((address[0], self.port or port, *address[2:]))
            sock.listen(1024)
            self.port = sock.getsockname()[1]

    def _count(self, handler: Handler) -> Handler:
        async def counted(request: web.BaseRequest) -> web.StreamResponse:
            connection = request.protocol
            assert isinstance(connection, Connection)
            connection.begin()
            try:
                return await handler(request)
            finally:
                connection.end()

        return counted

    async def close(self) -> None:
        await self._tasks.stop()
        self._close_sockets()
        if self._server is not None:
            await self._server.shutdown(_CLOSE_S)

    def _close_sockets(self) -> None:
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()

    async def _accept(self, server: socket.socket) -> None:
        loop, exhausted = asyncio.get_running_loop(), False
        while True:
            try:
                sock, _ = await loop.sock_accept(server)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    if not exhausted:
                        log.warning("no more connections can be accepted now: %s", os.strerror(error.errno or 0))
                    exhausted = True
                    self._make_room()
                    await asyncio.sleep(_RETRY_S)
                continue
            exhausted = False
            if self._held() >= self.limit:
                if not self._make_room():
                    sock.close()
                    continue
                # While connections are queued, accept does not yield: descriptors are closed in other iterations of the
                # loop.
                await asyncio.sleep(0)
            self._entering[sock] = self.now()
            self._tasks.start(self._enter(sock), "handshake")

    def _held(self) -> int:
        return len(self.connections) + len(self._entering)

    async def _enter(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        assert self._server is not None
        timeout_s = HANDSHAKE_S if self._tls is not None else None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(self._server, sock, ssl=self._tls, ssl_handshake_timeout=timeout_s)
        except (OSError, ssl.SSLError, TimeoutError, asyncio.CancelledError):
            sock.close()
        finally:
            self._entering.pop(sock, None)

    def _make_room(self) -> bool:
        """Closes the connection that is least needed and stops counting it; False if all are in use."""
        idle = [connection for connection in self.connections if not connection.answering]
        if idle:
            least = min(
                idle, key=lambda connection: (connection.trusted, connection.has_request, connection.idle_since)
            )
            self.connections.discard(least)
            least.abort()
            return True
        if self._entering:
            oldest = next(iter(self._entering))
            if self.now() - self._entering[oldest] > _HURRY_S:
                del self._entering[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
                return True
        return False

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(_SWEEP_S)
            now = self.now()
            for connection in list(self.connections):
                # aiohttp closes connections that are idle after a request, but not those whose request headers never
                # end.
                allowed_s = IDLE_S + HEADER_S if connection.has_request else HEADER_S
                if not connection.answering and now - connection.idle_since > allowed_s:
                    connection.abort()
