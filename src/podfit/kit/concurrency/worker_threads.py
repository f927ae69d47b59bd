"""Runs long pure computations in threads, round-robin over clients.

Python runs one thread at a time, so nothing gets faster; but the event loop gets its turn every `SWITCH_S`, however
long the computation takes. Very large computations have a thread of their own, so that merely large ones do not wait
seconds for them. Only for values that nothing else modifies.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

from podfit.kit.concurrency.fair_lock import FairLock

Result = TypeVar("Result")
SWITCH_S = 0.001
LARGE = 64 * 1024
"""The size in bytes of JSON that takes some milliseconds to decode, default and validate."""
VERY_LARGE = 512 * 1024
CLIENT: ContextVar[str] = ContextVar("client", default="")
"""The client that the current task works for: threads are assigned to clients in turn."""


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


class WorkerThreads:
    def __init__(self) -> None:
        self._threads: tuple[_Thread, _Thread] | None = None

    async def run(self, size: int, work: Callable[[], Result]) -> Result:
        """Runs in place unless `size` suggests that it takes long."""
        if size < LARGE:
            return work()
        if self._threads is None:
            # The interpreter's default of five milliseconds would be added to each iteration of the loop meanwhile.
            sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
            self._threads = _Thread("worker"), _Thread("worker-long")
        return await self._threads[size >= VERY_LARGE].run(work)

    def close(self) -> None:
        for thread in self._threads or ():
            thread.close()
        self._threads = None
