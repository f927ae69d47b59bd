"""The small HTTP server of a component: `/metrics`, `/health-check`, and the component's own paths."""

from __future__ import annotations

import logging

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from podfit.kit.clock import Clock
from podfit.kit.durations import go_duration
from podfit.kit.web.addresses import CannotListen
from podfit.kit.web.listener import HttpListener, limited_requests, side_listener_limit
from podfit.kit.web.routes import Handler, Info, Refusal, Routes, words_of
from podfit.vpa.flags import BadFlag
from podfit.vpa.serve.measures import exposition

log = logging.getLogger(__name__)

MAX_BODY = 8 << 20


class Health:
    """A component is healthy while its loop completes a pass within five of its intervals."""

    def __init__(self, clock: Clock, interval_s: float) -> None:
        self._clock, self._limit_s = clock, interval_s * 5
        self._last = clock.monotonic()

    def alive(self) -> None:
        self._last = self._clock.monotonic()

    @property
    def silent_s(self) -> float:
        """The seconds since the last pass, if they exceed the limit; else 0."""
        silent = self._clock.monotonic() - self._last
        return silent if silent > self._limit_s else 0.0


class HttpServer:
    def __init__(self, address: str, registry: CollectorRegistry, health: Health) -> None:
        """`address` is HOST:PORT. An empty host means all interfaces; without an address there is no server."""
        self._address, self._registry, self._health = address, registry, health
        self._routes = Routes()
        self._routes.add("GET", "/metrics", self._metrics)
        self._routes.add("GET", "/health-check", self._health_check)
        self._listener: HttpListener | None = None
        self.port = 0

    def add(self, method: str, path: str, handler: Handler) -> None:
        self._routes.add(method, path, handler)

    async def start(self) -> None:
        if not self._address:
            return
        host, _, port = self._address.rpartition(":")
        self._listener = HttpListener(
            self._serve, None, limit=side_listener_limit(), request_factory=limited_requests(MAX_BODY)
        )
        try:
            await self._listener.open(host.strip("[]"), int(port))
        except (CannotListen, ValueError, OverflowError) as error:
            await self.stop()
            raise BadFlag(f"--address {self._address}: {error}") from error
        self.port = self._listener.port

    @property
    def url_here(self) -> str:
        """The server's URL for processes on this machine; empty if it listens on another address, or not at all."""
        host = self._address.rpartition(":")[0]
        return f"http://{host}:{self.port}" if self.port and host.strip("[]") in ("127.0.0.1", "::1") else ""

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            handler, info = self._routes.find(request.method, words_of(request.raw_path))
        except Refusal as refusal:
            return web.Response(status=refusal.code, text=refusal.text)
        return await handler(request, info)

    async def _metrics(self, request: web.BaseRequest, info: Info) -> web.Response:
        return web.Response(body=exposition(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _health_check(self, request: web.BaseRequest, info: Info) -> web.Response:
        if silent := self._health.silent_s:
            return web.Response(status=500, text=f"Error: last activity more than {go_duration(silent)} ago")
        return web.Response(text="OK")
