"""A store in memory only: for tests, simulations and throw-away clusters."""

from __future__ import annotations

from podfit.kit.clock import Clock, RealClock
from podfit.store.backend import Change, Record, Unavailable
from podfit.store.expiry import Expiry
from podfit.store.view import View, next_change


class MemoryStore(View):
    def __init__(self, history: int = 10_000, history_bytes: int = 64 << 20, clock: Clock | None = None) -> None:
        super().__init__(history, history_bytes)
        self._clock = clock or RealClock()
        self._expiry = Expiry(self._clock, self.delete)
        self._closed = False

    async def open(self) -> None:
        self._closed = False
        self._expiry.start()

    async def close(self) -> None:
        self._closed = True
        await self._expiry.stop()
        self.end()

    async def sync(self) -> int:
        return self.revision

    async def put(self, key: str, value: bytes, expect: int | None = None, ttl_s: float = 0) -> Record:
        change = self._write(key, value, expect)
        if ttl_s > 0:
            self._expiry.set(change.key, self._clock.now() + ttl_s, change.revision)
        assert change.record is not None
        return change.record

    async def delete(self, key: str, expect: int | None = None) -> Change:
        return self._write(key, None, expect)

    async def compact(self, revision: int) -> None:
        self.forget(revision)

    def _write(self, key: str, value: bytes | None, expect: int | None) -> Change:
        if self._closed:
            raise Unavailable("the store is closed")
        change = next_change(self.get(key), key, value, expect, self.revision + 1)
        self._expiry.drop(key)
        self.apply(change)
        return change
