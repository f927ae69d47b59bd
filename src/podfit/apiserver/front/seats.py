"""Limits how many requests of each client are processed concurrently.

Flow control (`podfit.apiserver.flows`) decides which requests are admitted. The admitted requests of one client share a
few seats for reads and a few for writes. All work runs on one event loop, so a flood from one client delays others by
those few seats only. Watches and other streams take no seat.

A body that is still arriving takes a slot of its own, of which there are more: a client that sends slowly delays its
other requests only if it has many such bodies, and the memory for them is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from podfit.apiserver.request import Request, Response
from podfit.apiserver.routes import Route

_ENDLESS = frozenset(("watch", "proxy"))
_ENDLESS_PARTS = frozenset(("attach", "exec", "proxy", "log", "portforward"))


class Limits:
    """The limits of one class of requests: per client, and in total."""

    def __init__(self, seats: int) -> None:
        self.seats = seats
        self.in_flight = 0


class _ClientQueue:
    """The requests of one client in one class."""

    __slots__ = ("limits", "seated", "waiting")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.seated = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Seats:
    def __init__(self) -> None:
        self.reads = Limits(4)
        self.writes = Limits(16)
        self.bodies = Limits(64)
        self._lines: dict[tuple[str, str], _ClientQueue] = {}

    async def take(self, request: Request, body: bool = False) -> None:
        """Waits for a seat, or with `body` for a slot for the request's body."""
        key = _key(request, body)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _ClientQueue(self._limits(request, body))
        line.limits.in_flight += 1
        if line.seated < line.limits.seats:
            line.seated += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                # A released seat may have been granted to this waiter already.
                with contextlib.suppress(ValueError):
                    line.waiting.remove(turn)
                self._left(key, line)
            else:
                self.give_back(request, body)
            raise

    def give_back(self, request: Request, body: bool = False) -> None:
        key = _key(request, body)
        line = self._lines[key]
        while line.waiting:
            turn = line.waiting.popleft()
            if not turn.done():
                # The seat is passed on directly.
                turn.set_result(None)
                line.limits.in_flight -= 1
                return
        line.seated -= 1
        self._left(key, line)

    def _limits(self, request: Request, body: bool) -> Limits:
        if body:
            return self.bodies
        return self.reads if request.reads else self.writes

    def _left(self, key: tuple[str, str], line: _ClientQueue) -> None:
        line.limits.in_flight -= 1
        if not line.seated and not line.waiting and self._lines.get(key) is line:
            del self._lines[key]


def _key(request: Request, body: bool) -> tuple[str, str]:
    return request.client, "body" if body else "read" if request.reads else "write"


def is_endless(route: Route | None) -> bool:
    """Whether the request is a stream: not limited in time, and without cost while idle."""
    return route is not None and (route.verb in _ENDLESS or route.subresource in _ENDLESS_PARTS)


def is_watch(route: Route | None) -> bool:
    return route is not None and route.verb == "watch"


def too_many(headers: list[tuple[str, str]], retry_s: int) -> Response:
    """The response 429, with a line of text as in kube-apiserver."""
    text = b"Too many requests, please try again later.\n"
    fixed = [("Retry-After", str(retry_s)), ("X-Content-Type-Options", "nosniff")]
    return Response(429, text, "text/plain; charset=utf-8", [*fixed, *headers])
