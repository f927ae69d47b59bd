"""A request and its answer, free of any HTTP library: the same handler serves sockets and in-process clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from podfit.api.encoded import encoded
from podfit.api.objects import Object
from podfit.api.resize.dialects import HEADER, NATIVE


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. Groups decide most: system:masters may do everything."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_NATIVE_HEADER = HEADER.lower()
_READS = frozenset(("GET", "HEAD"))
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
    arriving: Callable[[], Awaitable[bytes]] | None = None
    """Reads the body, where it is still on its way: it is not read for clients that may not send it."""
    client: str = ""
    """Who shares a limit of requests in flight; "" for parts of this process, which have none."""
    patient: bool = False
    """Not a short request, or not any more: what is left to do for it waits for those that are (`lane`)."""
    shares: bool = False
    """Asked by a part of this process that takes the server's own objects for an answer, and only reads them."""

    @property
    def native(self) -> bool:
        """Whether the client speaks the native form of in-place resize, whatever its namespace or the server's default
        says: parts of this process do."""
        return self.shares or self.headers.get(_NATIVE_HEADER) == NATIVE

    @property
    def reads(self) -> bool:
        return self.method in _READS

    @property
    def size(self) -> int:
        """Bytes of the body; an object that a part of this process hands over counts as none."""
        return len(self.sent) if isinstance(self.sent, bytes) else 0

    async def receive(self) -> None:
        if self.arriving is not None:
            self.sent, self.arriving = await self.arriving(), None

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
    as_yaml: bool = False
    """The body is JSON, to be written as YAML."""
    pieces: list[bytes] | None = None
    """In place of a body, for an answer too long to be copied at once; only clients over HTTP get it."""
    on_sent: Callable[[], None] | None = None
    """To be called when `pieces` have been sent."""
    stream: AsyncIterator[bytes] | None = None
    """When set, the body comes in pieces (watches, logs); each piece is sent at once."""
    shared: Object | None = None
    """In place of a body, for who `shares`."""
