"""Long pure work beside the event loop: in threads, clients in turn.

Python runs one thread at a time, so nothing gets faster; but the loop has its turn every `SWITCH_S`, however long the
work takes. Very large work has a thread of its own, so that what is merely large does not wait seconds for it. For work
on values that nothing else changes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

from podfit.kit.concurrency.fairly import FairLock

Result = TypeVar("Result")
SWITCH_S = 0.001
LARGE = 64 * 1024
"""Bytes of JSON that take some milliseconds to decode, default and validate."""
VERY_LARGE = 512 * 1024
CLIENT: ContextVar[str] = ContextVar("client", default="")
"""Whom the present task works for: clients get the threads in turn."""


class _Thread:
    def __init__(self, name: str) -> None:
        self._pool, self._lock = ThreadPoolExecutor(1, name), FairLock()

    async def run(self, work: Callable[[], Result]) -> Result:
        await self._lock.take(CLIENT.get())
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._lock.give_back()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Aside:
    def __init__(self) -> None:
        self._threads: tuple[_Thread, _Thread] | None = None

    async def run(self, size: int, work: Callable[[], Result]) -> Result:
        """Does it right here unless `size` says that it takes long."""
        if size < LARGE:
            return work()
        if self._threads is None:
            # Five milliseconds, the interpreter's default, would be added to each turn of the loop meanwhile.
            sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
            self._threads = _Thread("aside"), _Thread("aside-long")
        return await self._threads[size >= VERY_LARGE].run(work)

    def close(self) -> None:
        for thread in self._threads or ():
            thread.close()
        self._threads = None
