"""An HTTPS server for tests that acts as a misbehaving node, pod, webhook or aggregated API server.

It returns configured responses, and records each request with its client certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from podfit.apiserver.auth.certs.certificates import Authority, new_authority

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    """Keys are lower-case."""
    certificate: Any
    """The client's certificate as returned by ssl; None for a client without one."""


class Elsewhere:
    def __init__(self, folder: Path, client_ca: bytes, *names: str) -> None:
        """`client_ca`: clients may present a certificate of this authority. `names`: in the server's certificate,
        instead of the default ones."""
        self._folder, self._client_ca = folder, client_ca
        self._names = list(names) or ["localhost", "127.0.0.1"]
        self.seen: list[Seen] = []
        self.answer: Callable[[Seen], web.Response] = lambda seen: web.json_response({})
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Elsewhere:
        self.authority = new_authority("elsewhere", _DAY)
        pair = Authority.load(self.authority).server("server", self._names, _DAY)
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "crt").write_bytes(pair.cert)
        (self._folder / "key").write_bytes(pair.key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._folder / "crt", self._folder / "key")
        tls.load_verify_locations(cadata=self._client_ca.decode())
        tls.verify_mode = ssl.CERT_OPTIONAL
        self._runner = web.ServerRunner(web.Server(self._handle))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        headers = {name.lower(): value for name, value in request.headers.items()}
        certificate = request.transport.get_extra_info("peercert") or None
        seen = Seen(request.method, request.raw_path, headers, certificate)
        self.seen.append(seen)
        return self.answer(seen)


def redirect(to: str, status: int = 307) -> Callable[[Seen], web.Response]:
    return lambda seen: web.Response(status=status, headers={"Location": to})
