"""Long work on the event loop that waits for nothing, in pieces: others get their turn by time, not by count."""

from __future__ import annotations

import asyncio

from podfit.kit.clock import Clock


class Turns:
    def __init__(self, clock: Clock, longest_s: float = 0.002) -> None:
        """Others wait no longer than `longest_s`, and for the piece that is being worked on."""
        self._monotonic, self._longest_s = clock.monotonic, longest_s
        self._began = self._monotonic()

    def over(self) -> bool:
        """Asked after each piece: whether to `give` others a turn."""
        return self._monotonic() - self._began >= self._longest_s

    async def give(self) -> None:
        await asyncio.sleep(0)
        self._began = self._monotonic()
