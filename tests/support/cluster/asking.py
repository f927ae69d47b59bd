"""Sends requests from tests to an API server in this process: JSON in, status code and JSON out.

Requests go directly to the server's handler, so a test sees the raw response and not a client's interpretation of it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from podfit.apiserver.app import ApiServer
from podfit.apiserver.auth.certs.certificates import Pair
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, User
from podfit.store.memory import MemoryStore


class Asker:
    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        media: str = "application/json",
        *,
        accept: str = "",
        user: User = ADMIN,
        **query: str,
    ) -> tuple[int, Any]:
        """The status code and the decoded response (bytes if it is not an object)."""
        data = b"" if body is None else json.dumps(body).encode()
        asked = {key: [value] for key, value in query.items()}
        headers = {"content-type": media, **({"accept": accept} if accept else {})}
        answer = await self.server.handle(Request(method, path, asked, headers, data, user))
        return answer.status, json.loads(answer.body) if answer.body.startswith(b"{") else answer.body


def tls_of(server: ApiServer, pair: Pair | None, folder: Path) -> ssl.SSLContext:
    """The TLS settings of a client that trusts the server and presents its certificate, if it has one."""
    context = ssl.create_default_context(cadata=server.pki.ca.decode())
    if pair is not None:
        (folder / "c.crt").write_bytes(pair.cert)
        (folder / "c.key").write_bytes(pair.key)
        context.load_cert_chain(folder / "c.crt", folder / "c.key")
    return context


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[ApiServer]:
    """A started server on a store in memory."""
    server = ApiServer(Config(MemoryStore(), folder))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def expect_code(ask: Asker, path: str, code: int) -> None:
    """Waits until a GET returns the code: the registry follows the store's log, one iteration of the loop behind."""
    async with asyncio.timeout(60):
        while (await ask("GET", path))[0] != code:
            await asyncio.sleep(0)
