"""Serves the meter as a separate server behind an API server that aggregates it.

Only the API server may connect: it has authorized the user, and presents the front proxy's client certificate. The
health endpoint needs no certificate.
"""

from __future__ import annotations

import ssl
from urllib.parse import parse_qs, unquote

from aiohttp import web

from podfit.api.status import ApiError
from podfit.kit.web.addresses import bracketed
from podfit.kit.web.listener import HttpListener, common_name, side_listener_limit
from podfit.meter.api import Answer, MetricsApi, refusal

_OPEN = ("/healthz", "/livez", "/readyz")


class MeterServer:
    def __init__(
        self,
        api: MetricsApi,
        tls: ssl.SSLContext,
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_names: frozenset[str] = frozenset(),
    ) -> None:
        """`tls` verifies clients against the front proxy's authority. If `allowed_names` is empty, every client with a
        certificate of that authority is accepted."""
        self._api, self._tls, self._allowed = api, tls, allowed_names
        self.host, self.port = host, port
        self._listener: HttpListener | None = None

    async def start(self) -> None:
        self._listener = HttpListener(self._serve, self._tls, limit=side_listener_limit())
        await self._listener.open(self.host, self.port)
        self.port = self._listener.port

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    @property
    def url(self) -> str:
        return f"https://{bracketed(self.host)}:{self.port}"

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        if path in _OPEN:
            return web.Response(text="ok")
        transport = request.transport
        name = common_name(transport.get_extra_info("peercert") if transport is not None else None)
        if not name or (self._allowed and name not in self._allowed):
            return _response(refusal(ApiError(401, "Unauthorized", "Unauthorized")))
        headers = {key.lower(): value for key, value in request.headers.items()}
        return _response(await self._api.answer(request.method, unquote(path), parse_qs(query), headers))


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)
