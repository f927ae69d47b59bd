"""How many requests are answered at once, for each client and in total.

A client's reads and its writes have some seats each; what comes beyond them waits in the client's own line, so that a
flood of one client costs others the wait for a few seats, not for its whole line. Lines are bounded: what comes beyond
them, or beyond the total, gets 429 and is asked to come back. Watches and other streams take no seat.
"""

from __future__ import annotations

import asyncio
from collections import deque

from podfit.apiserver.request import Request, Response
from podfit.apiserver.routes import Route

_ENDLESS = frozenset(("watch", "proxy"))
_ENDLESS_PARTS = frozenset(("attach", "exec", "proxy", "log", "portforward"))


class Limits:
    """Of one class of requests: all that may be in flight, of one client, and those of them that are worked on."""

    def __init__(self, total: int, each: int, seats: int) -> None:
        self.total, self.each, self.seats = total, each, seats
        self.in_flight = 0


class _Line:
    """The requests of one client and class."""

    __slots__ = ("limits", "seated", "waiting")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.seated = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Seats:
    def __init__(self, reads: int = 400, writes: int = 200) -> None:
        """The totals are kube-apiserver's `--max-requests-inflight` and `--max-mutating-requests-inflight`."""
        self.reads = Limits(reads, max(1, reads // 2), 4)
        self.writes = Limits(writes, max(1, writes // 2), 16)
        self._lines: dict[tuple[str, bool], _Line] = {}

    def is_full(self, request: Request) -> bool:
        """Whether the request is one too many."""
        limits = self.reads if request.reads else self.writes
        line = self._lines.get(_key(request))
        held = 0 if line is None else line.seated + len(line.waiting)
        return limits.in_flight >= limits.total or held >= limits.each

    async def take(self, request: Request) -> None:
        key = _key(request)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(self.reads if request.reads else self.writes)
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
                line.waiting.remove(turn)
                self._left(key, line)
            else:
                self.give_back(request)
            raise

    def give_back(self, request: Request) -> None:
        key = _key(request)
        line = self._lines[key]
        while line.waiting:
            turn = line.waiting.popleft()
            if not turn.done():
                # The seat goes from hand to hand.
                turn.set_result(None)
                line.limits.in_flight -= 1
                return
        line.seated -= 1
        self._left(key, line)

    def _left(self, key: tuple[str, bool], line: _Line) -> None:
        line.limits.in_flight -= 1
        if not line.seated and not line.waiting:
            self._lines.pop(key, None)


def _key(request: Request) -> tuple[str, bool]:
    return request.client, request.reads


def is_endless(route: Route | None) -> bool:
    """Streams: they stay as long as they like, and cost nothing while nothing happens."""
    return route is not None and (route.verb in _ENDLESS or route.subresource in _ENDLESS_PARTS)


def too_many() -> Response:
    """429 as kube-apiserver has it: a line of text."""
    text = b"Too many requests, please try again later.\n"
    return Response(
        429, text, "text/plain; charset=utf-8", [("Retry-After", "1"), ("X-Content-Type-Options", "nosniff")]
    )
