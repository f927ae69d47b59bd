"""Long pure work beside the event loop: in a thread, one piece at a time.

Python runs one thread at a time, so nothing gets faster; but the loop has its turn every `SWITCH_S`, however long the
work takes. For work on values that nobody else changes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
SWITCH_S = 0.001
LARGE = 64 * 1024
"""Bytes of JSON that take some milliseconds to decode, default and validate."""


class Aside:
    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, size: int, work: Callable[[], Result]) -> Result:
        """Does it right here unless `size` says that it takes long."""
        if size < LARGE:
            return work()
        if self._threads is None:
            # Five milliseconds, the interpreter's default, would be added to each turn of the loop meanwhile.
            sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
            self._threads = ThreadPoolExecutor(1, "aside")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
