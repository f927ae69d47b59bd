"""Time as a dependency: the real clock, and a virtual one that tests advance.

Everything that waits or takes timestamps uses a `Clock`; nothing calls `time.time()` or `asyncio.sleep()` itself.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol

from podfit.kit.rfc3339 import parse_rfc3339 as parse_rfc3339
from podfit.kit.rfc3339 import rfc3339 as rfc3339
from podfit.kit.rfc3339 import rfc3339_micro as rfc3339_micro


class Clock(Protocol):
    def now(self) -> float:
        """Wall-clock seconds since the epoch; may jump."""

    def monotonic(self) -> float:
        """Monotonic seconds, for durations and deadlines."""

    async def sleep(self, seconds: float) -> None: ...


class RealClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FakeClock:
    """Virtual time: `advance` moves it and wakes the sleepers that are due, in order."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._mono = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._mono

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._mono + seconds, next(self._order), done))
        await done

    async def advance(self, seconds: float) -> None:
        """Advances the time, letting woken tasks run between one wake-up and the next."""
        await self._settle()
        target = self._mono + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, done = heapq.heappop(self._sleepers)
            self._now += due - self._mono
            self._mono = due
            if not done.done():
                done.set_result(None)
            await self._settle()
        self._now += target - self._mono
        self._mono = target
        await self._settle()

    @staticmethod
    async def _settle() -> None:
        for _ in range(20):
            await asyncio.sleep(0)


async def sleep_unless(clock: Clock, seconds: float, wake: asyncio.Event) -> None:
    """Sleeps until the event is set or the timeout has passed."""
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    waking = asyncio.ensure_future(wake.wait())
    try:
        await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sleeping, waking):
            task.cancel()
        await asyncio.gather(sleeping, waking, return_exceptions=True)
