"""A request and its response, independent of any HTTP library: the same handler serves sockets and in-process
clients.
"""

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
    """The authenticated user. Groups matter most: system:masters may do everything."""

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
    """Headers with lower-case names."""
    sent: bytes | Object = b""
    """The body as received. A component of this process may pass the object itself: it is read, and never retained."""
    user: User = ANONYMOUS
    upgrade: Any = None
    """The connection, for requests that switch protocols (exec, attach, port-forward, WebSocket watches)."""
    arriving: Callable[[], Awaitable[bytes]] | None = None
    """Reads a body that has not arrived yet. It is called only after the client is authorized."""
    client: str = ""
    """The key of the limit of requests in flight; "" for components of this process, which have none."""
    is_long: bool = False
    """Whether the request is known to be long: the rest of its work waits for short requests (`long_responses`)."""
    short: bool = False
    """Whether reads of other clients wait for this request (`turns`): it has begun, and has not turned out to be
    long."""
    shares: bool = False
    """Whether the client is a component of this process that accepts the server's own objects as response,
    read-only."""

    @property
    def native(self) -> bool:
        """Whether the client uses the native form of in-place resize, regardless of the namespace's dialect: true for
        components of this process."""
        return self.shares or self.headers.get(_NATIVE_HEADER) == NATIVE

    @property
    def reads(self) -> bool:
        return self.method in _READS

    @property
    def size(self) -> int:
        """The size of the body in bytes; 0 for an object passed by a component of this process."""
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
    """The body is JSON, to be sent as YAML."""
    pieces: list[bytes] | None = None
    """Instead of a body, for a response too long to be copied at once; only for clients over HTTP."""
    on_sent: Callable[[], None] | None = None
    """Called when `pieces` have been sent."""
    stream: AsyncIterator[bytes] | None = None
    """If set, the body is a stream of chunks (watches, logs); each is sent immediately."""
    shared: Object | None = None
    """The server's own object instead of a body, if the request has `shares`."""
