"""Orders the reads of several clients fairly.

All requests share one event loop, and each takes several of its iterations. The reads of a client with many requests in
flight wait for those of clients with fewer, and begin one per iteration, so that other clients do not wait for all of
them in each iteration. A client that is alone does not wait, waits are short, and writes never wait: those of one
iteration share a commit.
"""

from __future__ import annotations

import asyncio
from collections import deque

from podfit.apiserver.request import Request
from podfit.kit.clock import Clock

_ALONE_S = 1.0
"""After this long without a request of another client, a client is alone."""
_TURN_TIMEOUT_S = 0.008
"""How long a read waits at most, and how long others wait for a request that has begun."""
_Turn = asyncio.Future[None]


class Turns:
    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._present: dict[str, int] = {}
        """Requests by client, waiting ones included."""
        self._short: dict[str, int] = {}
        """Requests that have begun, except those that turned out to be long."""
        self._since: dict[str, float] = {}
        """The time at which the last of these requests began."""
        self._waiting: dict[str, deque[_Turn]] = {}
        self._begun: set[str] = set()
        """Clients that began a read in this iteration."""
        self._alone_from = 0.0
        self._latest = ""
        self._end_of_iteration: asyncio.Handle | None = None

    async def enter(self, request: Request) -> None:
        """Waits until the request may begin."""
        client, now = request.client, self._monotonic()
        self._present[client] = self._present.get(client, 0) + 1
        if client != self._latest:
            self._latest, self._alone_from = client, now + _ALONE_S
        if request.reads and now < self._alone_from:
            if client in self._waiting or client in self._begun or self._yields_turn(client, now):
                await self._wait(client)
            else:
                self._begun.add(client)
                self._watch_iteration()
        self._begin(request)

    def lengthen(self, request: Request) -> None:
        """Called when a request turns out to be long: the others no longer wait for it."""
        if not request.short:
            return
        request.short, client = False, request.client
        self._short[client] -= 1
        if not self._short[client]:
            del self._short[client], self._since[client]
            if self._waiting:
                self._watch_iteration()

    def leave(self, request: Request) -> None:
        self.lengthen(request)
        self._leave(request.client)

    def _begin(self, request: Request) -> None:
        request.short = True
        self._short[request.client] = self._short.get(request.client, 0) + 1
        self._since[request.client] = self._monotonic()

    def _leave(self, client: str) -> None:
        self._present[client] -= 1
        if not self._present[client]:
            del self._present[client]

    def _yields_turn(self, client: str, now: float) -> bool:
        mine = self._present[client]
        return mine > 1 and any(
            other != client and self._present[other] < mine and now - since < _TURN_TIMEOUT_S
            for other, since in self._since.items()
        )

    async def _wait(self, client: str) -> None:
        loop = asyncio.get_running_loop()
        turn: _Turn = loop.create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        timer = loop.call_later(_TURN_TIMEOUT_S, _grant, turn)
        self._watch_iteration()
        try:
            await turn
        except asyncio.CancelledError:
            self._leave(client)
            raise
        finally:
            timer.cancel()
            queue = self._waiting.get(client, ())
            if turn in queue:
                self._remove(client, turn)

    def _remove(self, client: str, turn: _Turn) -> None:
        queue = self._waiting[client]
        queue.remove(turn)
        if not queue:
            del self._waiting[client]

    def _watch_iteration(self) -> None:
        if self._end_of_iteration is None:
            self._end_of_iteration = asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        """Ends an iteration: every client that need not wait for another begins its next read."""
        self._end_of_iteration, now = None, self._monotonic()
        self._begun.clear()
        for client, queue in list(self._waiting.items()):
            if not self._yields_turn(client, now):
                turn = queue[0]
                self._remove(client, turn)
                self._begun.add(client)
                self._watch_iteration()
                _grant(turn)


def _grant(turn: _Turn) -> None:
    if not turn.done():
        turn.set_result(None)
