"""Clients for components in the server's process: no sockets, no TLS, a trusted user."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from podfit.api.objects import Object, freeze
from podfit.apiserver.request import Request, Response, User
from podfit.client import Client, LocalTransport

if TYPE_CHECKING:
    from podfit.apiserver.app import ApiServer


def local_client(server: ApiServer, user: User, name: str, shares: bool = False) -> Client:
    """A client of a server in this process, acting as `user`.

    With `shares`, watched objects and results of writes are shared with the server and must not be modified.
    """

    def call(
        method: str, path: str, query: dict[str, list[str]], headers: Mapping[str, str], body: bytes | Object
    ) -> Awaitable[Response]:
        content = body if isinstance(body, bytes) else freeze(body)
        return server.handle(Request(method, path, query, headers, content, user, shares=shares))

    return Client(LocalTransport(call, f"podfit-{name}", shares))
