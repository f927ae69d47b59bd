"""A request and its answer, free of any HTTP library: the same handler serves sockets and in-process clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from podfit.api.encoded import encoded
from podfit.api.status import Object


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. Groups decide most: system:masters may do everything."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))


class Request(msgspec.Struct):
    method: str
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    """Keys are lower-case."""
    sent: bytes | Object = b""
    """The body as it came. A part of this process may hand over the object itself: it is read, and never kept."""
    user: User = ANONYMOUS
    upgrade: Any = None
    """The connection, for requests that leave HTTP behind (exec, attach, port-forward, WebSocket watches)."""
    shares: bool = False
    """Asked by a part of this process that takes the server's own objects for an answer, and only reads them."""

    @property
    def body(self) -> bytes:
        if not isinstance(self.sent, bytes):
            self.sent = encoded(self.sent)
        return self.sent

    @body.setter
    def body(self, data: bytes) -> None:
        self.sent = data


class Response(msgspec.Struct):
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = msgspec.field(default_factory=list)
    stream: AsyncIterator[bytes] | None = None
    """When set, the body comes in pieces (watches, logs); each piece is sent at once."""
    shared: Object | None = None
    """In place of a body, for who `shares`."""
