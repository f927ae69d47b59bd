"""A queue of keys: each is queued at most once, processed by one worker at a time, and may be due later.

A key added while it is being processed is queued again afterwards, so that no change is missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from podfit.kit.clock import Clock, RealClock

K = TypeVar("K", bound=Hashable)


class Queue(Generic[K]):
    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or RealClock()
        self._waiting: deque[K] = deque()
        self._queued: set[K] = set()
        self._working: set[K] = set()
        self._dirty: set[K] = set()
        self._timers: dict[K, tuple[float, asyncio.Task[None]]] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: K) -> None:
        """Queues the key; it is due now."""
        self._cancel_timer(key)
        if key in self._working:
            self._dirty.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)
            self._idle.clear()
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Queues the key to be due in `seconds`, unless it is already due earlier."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        timer = self._timers.get(key)
        if timer is not None and timer[0] <= due:
            return
        self._cancel_timer(key)
        self._timers[key] = (due, asyncio.get_running_loop().create_task(self._later(key, seconds)))

    async def get(self) -> K:
        while not self._waiting:
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise
        key = self._waiting.popleft()
        self._queued.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)
        if not self._waiting and not self._working:
            self._idle.set()

    def forget(self, key: K) -> None:
        """Drops the keys scheduled for later."""
        self._cancel_timer(key)

    async def idle(self) -> None:
        """Waits until nothing is due and no worker is busy."""
        await self._idle.wait()

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        for key in list(self._timers):
            self._cancel_timer(key)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    async def _later(self, key: K, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None and timer[1] is not asyncio.current_task():
            timer[1].cancel()
