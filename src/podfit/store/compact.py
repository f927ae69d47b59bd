"""Compacts old history every few minutes. If several servers share a store, only one of them does it in each round.

Each round compacts what was already old one round before, so that every revision stays readable for at least one
interval. The rounds are counted in a key of the store: a server that finds it unchanged since its own last check
increments it and does the compaction; the others see the change. Run by the API server.
"""

from __future__ import annotations

import logging

from podfit.kit.clock import Clock, RealClock
from podfit.store.backend import FutureRevision, Mismatch, Store, StoreError

log = logging.getLogger(__name__)

ROUND_KEY = ".compaction"


class Compactor:
    def __init__(self, store: Store, interval_s: float = 300.0, clock: Clock | None = None) -> None:
        self._store = store
        self._interval_s = interval_s
        self._clock = clock or RealClock()
        self._seen = 0
        """The value of the round key when this server last read it."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_s)
            try:
                await self.turn()
            except StoreError as error:
                log.warning("compaction failed, next try in %.0f s: %s", self._interval_s, error)

    async def turn(self) -> bool:
        """Runs one round; returns whether this server did the compaction."""
        record = self._store.get(ROUND_KEY)
        standing = 0 if record is None else record.modified
        if standing != self._seen:
            self._seen = standing
            return False
        boundary = self._store.revision
        try:
            moved = await self._store.put(ROUND_KEY, str(boundary).encode(), expect=standing)
        except Mismatch as mismatch:
            self._seen = 0 if mismatch.current is None else mismatch.current.modified
            return False
        self._seen = moved.modified
        if record is not None:
            await self._forget(int(record.value))
        return True

    async def _forget(self, revision: int) -> None:
        if revision > self._store.compacted:
            try:
                await self._store.compact(revision)
            except FutureRevision:
                log.warning("the store went back behind revision %d", revision)
