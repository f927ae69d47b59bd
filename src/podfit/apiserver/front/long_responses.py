"""Schedules the assembly of long responses on the event loop: lists of thousands of objects, tables, YAML.

Responses are assembled in slices of a few milliseconds, one slice at a time, round-robin over clients. A slice waits
while short requests are being handled, up to a limit. So a client that lists everything in a loop does not delay the
PATCH of another client, but still makes progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from podfit.apiserver.front.turns import Turns
from podfit.apiserver.request import Request
from podfit.kit.clock import Clock
from podfit.kit.concurrency.fair_lock import FairLock

SLICE_S = 0.001
_TIMEOUT_S = 0.008
_TURNS_BETWEEN = 4
Turn = asyncio.Future[None]


class LongResponses:
    def __init__(self, clock: Clock, slice_s: float = SLICE_S, timeout_s: float = _TIMEOUT_S) -> None:
        self._monotonic, self._slice_s, self._timeout_s = clock.monotonic, slice_s, timeout_s
        self._short = 0
        self._quiet: Turn | None = None
        self._lock, self.turns = FairLock(), Turns(clock)

    def enter(self) -> None:
        """Called when the handling of a request begins. A request counts as short until it turns out to be long."""
        self._short += 1

    def leave(self, request: Request) -> None:
        """Called when a request has been answered, or has turned out to be long."""
        if request.is_long:
            return
        request.is_long = True
        self._short -= 1
        if not self._short and self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    def _lengthen(self, request: Request) -> None:
        self.leave(request)
        self.turns.lengthen(request)

    async def wait(self, request: Request) -> None:
        """Waits for a turn before work that is certainly long, so that short requests run first."""
        self._lengthen(request)
        await self._turn(request.user.name)
        self._lock.give_back()

    async def run(self, request: Request, steps: Iterator[object]) -> None:
        """Runs all steps. The steps of one slice run without a break."""
        if not request.is_long and self._advance(steps):
            return
        self._lengthen(request)
        while True:
            await self._turn(request.user.name)
            try:
                if self._advance(steps):
                    return
            finally:
                self._lock.give_back()

    def _advance(self, steps: Iterator[object]) -> bool:
        until = self._monotonic() + self._slice_s
        return not any(self._monotonic() >= until for _ in steps)

    async def _turn(self, client: str) -> None:
        await self._lock.take(client)
        try:
            await self._until_quiet()
        except BaseException:
            self._lock.give_back()
            raise

    async def _until_quiet(self) -> None:
        # A request that arrived during the last slice takes a few iterations of the loop to be read and counted.
        for _ in range(_TURNS_BETWEEN):
            await asyncio.sleep(0)
        if not self._short:
            return
        loop = asyncio.get_running_loop()
        quiet = self._quiet = loop.create_future()
        timer = loop.call_later(self._timeout_s, _wake, quiet)
        try:
            await quiet
        finally:
            timer.cancel()
            self._quiet = None


def _wake(turn: Turn) -> None:
    if not turn.done():
        turn.set_result(None)
