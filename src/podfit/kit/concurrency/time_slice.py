"""Splits long computations on the event loop into slices, limited by time."""

from __future__ import annotations

import asyncio

from podfit.kit.clock import Clock


class TimeSlice:
    def __init__(self, clock: Clock, longest_s: float = 0.002) -> None:
        """Other tasks wait at most `longest_s`, plus the time of the item being processed."""
        self._monotonic, self._longest_s = clock.monotonic, longest_s
        self._began = self._monotonic()

    def over(self) -> bool:
        """Whether to call `give`, so that other tasks can run. Called after each item."""
        return self._monotonic() - self._began >= self._longest_s

    async def give(self) -> None:
        await asyncio.sleep(0)
        self._began = self._monotonic()
