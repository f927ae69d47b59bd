"""Expiring keys: a deadline each, one timer for the nearest, and a limit on their number.

For stores without expiry of their own (memory, sqlite); etcd has leases. Deadlines are wall-clock times, because they
outlive the process; the timer checks at least once a minute, because wall clocks jump.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Awaitable, Callable

from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Mismatch, StoreError

LOOK_AGAIN_S = 60.0
RETRY_S = 1.0
AT_ONCE = 500
MOST = 10_000


Deadline = tuple[float, str, int]
"""Deadline, key, and revision."""


class Expiry:
    """`delete(key, revision)` is awaited for each expired key that is still at that revision."""

    def __init__(self, clock: Clock, delete: Callable[[str, int], Awaitable[object]], most: int = MOST) -> None:
        """`most`: the limit of keys with a deadline; beyond it those with the nearest deadline are deleted early."""
        self._clock = clock
        self._delete = delete
        self._most = most
        self._due: dict[str, Deadline] = {}
        """By key: the current deadline, as in the heap."""
        self._heap: list[Deadline] = []
        self._tasks = Tasks("expiry")
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = math.inf

    def set(self, key: str, deadline: float, revision: int) -> None:
        self._due[key] = due = (deadline, key, revision)
        heapq.heappush(self._heap, due)
        if len(self._heap) > 2 * len(self._due) + 64:  # mostly deadlines that have been replaced
            self._heap = list(self._due.values())
            heapq.heapify(self._heap)
        self._arm()

    def drop(self, key: str) -> None:
        self._due.pop(key, None)

    def start(self) -> None:
        """Starts the timer; after `stop`, it continues with the existing deadlines."""
        self._arm()

    async def stop(self) -> None:
        await self._tasks.stop()
        self._alarm, self._alarm_at = None, math.inf

    def _arm(self) -> None:
        while self._heap and self._due.get(self._heap[0][1]) is not self._heap[0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return
        nearest = -math.inf if len(self._due) > self._most else self._heap[0][0]
        if nearest >= self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = nearest
        self._alarm = self._tasks.start(self._ring(self._alarm_at))

    async def _ring(self, deadline: float) -> None:
        await self._clock.sleep(min(max(deadline - self._clock.now(), 0.0), LOOK_AGAIN_S))
        self._alarm, self._alarm_at = None, math.inf
        now = self._clock.now()
        late: list[Deadline] = []
        # Beyond the limit a batch of keys is deleted at once, so that not every further key causes another deletion.
        spare = len(self._due) - self._most + AT_ONCE // 2 if len(self._due) > self._most else 0
        while self._heap and len(late) < AT_ONCE and (self._heap[0][0] <= now or len(late) < spare):
            due = heapq.heappop(self._heap)
            if self._due.get(due[1]) is due:
                del self._due[due[1]]
                late.append(due)
        await asyncio.gather(*(self._expire(key, revision) for _, key, revision in late))
        self._arm()

    async def _expire(self, key: str, revision: int) -> None:
        try:
            await self._delete(key, revision)
        except Mismatch:
            pass  # written again in the meantime: that write set its own deadline
        except StoreError:
            if key not in self._due:
                self.set(key, self._clock.now() + RETRY_S, revision)
