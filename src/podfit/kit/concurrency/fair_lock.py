"""A lock that is granted to clients in turn, however many requests each of them has queued."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

_Turn = asyncio.Future[None]


class FairLock:
    def __init__(self) -> None:
        self._held = False
        self._waiting: OrderedDict[str, deque[_Turn]] = OrderedDict()

    async def take(self, client: str) -> None:
        if self._held:
            await self._wait(client)
        self._held = True

    def give_back(self) -> None:
        """Passes the lock to the next waiting client, in round-robin order."""
        while self._waiting:
            client, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[client] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._held = False

    async def _wait(self, client: str) -> None:
        turn: _Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # The lock was granted to a client that was cancelled at the same moment: pass it on.
                self.give_back()
            raise
