"""Distributes changes to watches, which are grouped by prefix and have a bounded buffer each.

A change looks up only the prefixes its key can have (one lookup per distinct prefix length), so its cost does not grow
with watches elsewhere. Nothing here waits for a reader: a slow reader loses its buffer and its place. Belongs to one
event loop. It does not depend on records or history; `view` feeds it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from podfit.store.backend import Change, Lagging


class Feed:
    """The buffer of one watch. `limit` bounds unread changes, excluding the backlog it started with."""

    __slots__ = ("_closed", "_fanout", "_lagging", "_limit", "_pending", "_reader", "prefix")

    def __init__(self, fanout: Fanout, prefix: str, backlog: Iterable[Change], limit: int) -> None:
        self.prefix = prefix
        self._fanout = fanout
        self._pending = deque(backlog)
        self._limit = limit + len(self._pending)
        self._reader: asyncio.Future[None] | None = None
        self._closed = self._lagging = False

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        return await self.next()

    async def next(self) -> Change:
        while not self._pending:
            if self._lagging:
                raise Lagging
            if self._closed:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._pending.popleft()

    def next_nowait(self) -> Change | None:
        if self._pending:
            return self._pending.popleft()
        if self._lagging:
            raise Lagging
        return None

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._pending.clear()
            self._fanout.remove(self)
            self._wake()

    def push(self, change: Change) -> bool:
        """Queues a change for the reader; returns False once the buffer has overflowed."""
        if len(self._pending) >= self._limit:
            self.overflow()
            return False
        self._pending.append(change)
        if self._reader is not None:
            self._wake()
        return True

    def overflow(self) -> None:
        self._lagging = True
        self._pending.clear()
        self._wake()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)


class Fanout:
    def __init__(self) -> None:
        self._groups: dict[str, dict[Feed, None]] = {}
        self._lengths: tuple[int, ...] = ()

    def __len__(self) -> int:
        return sum(len(group) for group in self._groups.values())

    def add(self, prefix: str, backlog: Iterable[Change], limit: int) -> Feed:
        feed = Feed(self, prefix, backlog, limit)
        if prefix not in self._groups:
            self._groups[prefix] = {}
            self._measure()
        self._groups[prefix][feed] = None
        return feed

    def remove(self, feed: Feed) -> None:
        group = self._groups.get(feed.prefix)
        if group is None or feed not in group:
            return
        del group[feed]
        if not group:
            del self._groups[feed.prefix]
            self._measure()

    def send(self, change: Change) -> None:
        key = change.key
        size = len(key)
        for length in self._lengths:
            if length > size:
                return
            group = self._groups.get(key[:length])
            if group:
                for late in [feed for feed in group if not feed.push(change)]:
                    self.remove(late)

    def overflow(self) -> None:
        """Notifies every watch that changes were missed: history was lost, not only their buffers."""
        for feed in self._all():
            self.remove(feed)
            feed.overflow()

    def close(self) -> None:
        for feed in self._all():
            feed.close()

    def _all(self) -> list[Feed]:
        return [feed for group in self._groups.values() for feed in group]

    def _measure(self) -> None:
        self._lengths = tuple(sorted({len(prefix) for prefix in self._groups}))
