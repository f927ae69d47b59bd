"""Counts and times the requests of a component to the API server, under client-go's names.

It wraps a client's transport; streams (watches) are counted when they begin.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from podfit.client import Client
from podfit.client.transport import ClientRequest, Reply, Stream, Transport, Unreachable
from podfit.kit.clock import Clock, RealClock
from podfit.kit.series import Counter, Histogram
from podfit.vpa.serve.bucket import Bucket

_BUCKETS = tuple(0.001 * 2**power for power in range(10))
CLOCK = RealClock()
UPSTREAM_PACE = (50.0, 100.0)
"""Requests per second and burst. These are upstream's defaults, and mean no limit here."""
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_HERE = "in-process"
"""The host of a server that is reached without a socket."""


class Paced(Protocol):
    """A component's rate limit for its requests."""

    @property
    def kube_api_qps(self) -> float: ...
    @property
    def kube_api_burst(self) -> float: ...


def measured(client: Client, registry: CollectorRegistry, config: Paced | None = None, clock: Clock = CLOCK) -> Client:
    """The same client with metrics, and with a rate limit if the settings require one."""
    bucket = None
    if config is not None and (config.kube_api_qps, config.kube_api_burst) != UPSTREAM_PACE:
        bucket = Bucket(config.kube_api_qps, config.kube_api_burst, clock)
    return Client(MeasuredTransport(client.transport, registry, bucket), client.field_manager)


class MeasuredTransport:
    def __init__(self, transport: Transport, registry: CollectorRegistry, bucket: Bucket | None = None) -> None:
        self._transport, self._bucket = transport, bucket
        self._server: str = getattr(transport, "server", "")
        self.shares: bool = getattr(transport, "shares", False)
        self._host = urlsplit(self._server).netloc or _HERE
        self._count = Counter(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
            registry=registry,
        ).may_have(method=_METHODS)
        self._seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb and URL.",
            ("verb", "url"),
            buckets=_BUCKETS,
            registry=registry,
        ).may_have(verb=_METHODS)

    async def request(self, request: ClientRequest) -> Reply:
        if self._bucket is not None:
            await self._bucket.wait(math.inf)
        started = time.perf_counter()
        code = "<error>"
        try:
            reply = await self._transport.request(request)
            code = str(reply.status)
            return reply
        finally:
            self._record(code, request.method, request.path, time.perf_counter() - started)

    def _record(self, code: str, method: str, path: str, seconds: float) -> None:
        self._count.labels(code, method, self._host).inc()
        self._seconds.labels(method, self._server + template(path)).observe(seconds)

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncIterator[Stream]:
        try:
            async with self._transport.stream(request) as stream:
                self._count.labels(str(stream.status), request.method, self._host).inc()
                yield stream
        except Unreachable:
            self._count.labels("<error>", request.method, self._host).inc()
            raise

    async def close(self) -> None:
        await self._transport.close()


def template(path: str) -> str:
    """A path with placeholders for names, so that there is one series for each kind of request."""
    parts = path.split("/")
    at = 3 if parts[1:2] == ["api"] else 4 if parts[1:2] == ["apis"] else len(parts)
    if parts[at : at + 1] == ["namespaces"] and len(parts) > at + 2:
        parts[at + 1] = "{namespace}"
        at += 2
    if len(parts) > at + 1:
        parts[at + 1] = "{name}"
    return "/".join(parts)
