"""The in-memory view of every store: the records in key order, recent changes, and the watches.

Stores derive from it and differ in where a change comes from: `memory` makes it, `sqlite` makes it durable first,
`etcd` receives it. All of them pass it to `apply`, in revision order, on the event loop that opened the store. Nothing
here waits for anything but a revision, and nothing here writes anywhere.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from sortedcontainers import SortedList

from podfit.store.backend import Change, Compacted, FutureRevision, Mismatch, Record
from podfit.store.fanout import Fanout, Feed

# History is trimmed in steps of this many changes: trimming per change would cost a list shift (and a disk write) each
# time.
STEP = 64
_FOLDERS = 65536


def revision_of(change: Change) -> int:
    return change.revision


def behind(prefix: str) -> str | None:
    """The first string after all that start with `prefix`; None if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        if ord(prefix[at]) < 0x10FFFF:
            return prefix[:at] + chr(ord(prefix[at]) + 1)
    return None


def next_change(current: Record | None, key: str, value: bytes | None, expect: int | None, revision: int) -> Change:
    """The change that a write makes to a key at `current`; `value` None deletes. Raises Mismatch."""
    standing = 0 if current is None else current.modified
    if (expect is not None and expect != standing) or (value is None and current is None):
        raise Mismatch(current)
    key = key if current is None else current.key
    if value is None:
        return Change(revision, key, None, current)
    created = revision if current is None else current.created
    return Change(revision, key, Record(key, value, created, revision), current)


class View:
    problem = ""
    """Why the store cannot be written; "" if it can."""

    def __init__(self, history: int = 10_000, history_bytes: int = 64 << 20) -> None:
        """`history` bounds the retained changes, `history_bytes` the superseded values that they hold."""
        self._limit, self._limit_bytes = history, history_bytes
        self._records: dict[str, Record] = {}
        self._keys = SortedList()
        self._log: list[Change] = []
        self._log_bytes = 0
        self._revision = self._compacted = 1
        self._touched: dict[str, int] = {}
        self._since = 0
        """Changes before this are not in `_touched`."""
        self._fanout = Fanout()
        self._waiters: list[tuple[int, int, asyncio.Future[bool]]] = []
        self._order = itertools.count()

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def compacted(self) -> int:
        return self._compacted

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def scan(self, prefix: str, after: str = "", limit: int = 0) -> list[Record]:
        return list(map(self._records.__getitem__, self._slice(prefix, after, limit)))

    def count(self, prefix: str, after: str = "") -> int:
        low, high = self._bounds(prefix, after)
        return high - low

    def touched(self, folder: str) -> int:
        return self._touched.get(folder, self._since)

    def count_at(self, revision: int, prefix: str, after: str = "") -> int:
        past = self._past(revision, prefix, after)
        since = sum((key in self._records) - (record is not None) for key, record in past.items())
        return self.count(prefix, after) - since

    def scan_at(self, revision: int, prefix: str, after: str = "", limit: int = 0) -> list[Record]:
        past = self._past(revision, prefix, after)
        if not past:
            return self.scan(prefix, after, limit)
        return list(itertools.islice(self._merged(prefix, after, past), limit or None))

    def watch(self, prefix: str, after: int, buffer: int = 4096) -> Feed:
        self._check_kept(after)
        return self._fanout.add(prefix, self._changes(after, prefix), buffer)

    async def wait_for(self, revision: int, timeout_s: float) -> bool:
        if self._revision >= revision:
            return True
        reached: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        entry = (revision, next(self._order), reached)
        heapq.heappush(self._waiters, entry)
        try:
            async with asyncio.timeout(timeout_s):
                return await reached
        except TimeoutError:
            return self._revision >= revision
        finally:
            if entry in self._waiters:  # timed out or cancelled: nothing else removes it
                self._waiters.remove(entry)
                heapq.heapify(self._waiters)

    def apply(self, change: Change) -> None:
        """Makes the next change visible, then notifies the watches."""
        if change.record is None:
            del self._records[change.key]
            self._keys.remove(change.key)
        else:
            if change.previous is None:
                self._keys.add(change.key)
            self._records[change.key] = change.record
        self._touch(change)
        self._log.append(change)
        if change.previous is not None:
            self._log_bytes += len(change.previous.value)
        self._trim()
        self._fanout.send(change)
        self.advance(change.revision)

    def _touch(self, change: Change) -> None:
        if len(self._touched) >= _FOLDERS:
            self._touched, self._since = {}, self._revision
        self._touched[change.key[: change.key.rfind("/") + 1]] = change.revision

    def advance(self, revision: int) -> None:
        """Records that the view is complete up to `revision`, even if the last change was not below its keys."""
        self._revision = max(self._revision, revision)
        while self._waiters and self._waiters[0][0] <= self._revision:
            waiter = heapq.heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(True)

    def reset(self, records: Iterable[Record], revision: int, compacted: int) -> None:
        """Starts over from a snapshot. Watches are notified that they missed changes."""
        self._fanout.overflow()
        self._records = {record.key: record for record in records}
        self._keys = SortedList(self._records)
        self._log, self._log_bytes = [], 0
        self._compacted = compacted
        self._revision = self._since = revision
        self._touched = {}
        self.advance(revision)

    def forget(self, revision: int) -> None:
        """Drops history up to and including `revision`, which stays readable."""
        if revision > self._revision:
            raise FutureRevision(self._revision)
        self._drop(bisect_right(self._log, revision, key=revision_of))
        self._compacted = max(self._compacted, revision)

    def end(self) -> None:
        """Ends all watches, and all pending `wait_for` calls."""
        self._fanout.close()
        while self._waiters:
            waiter = heapq.heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(False)

    def on_compacted(self, changes: list[Change]) -> None:
        """Called with changes that left the history; a durable store deletes their rows."""

    def _trim(self) -> None:
        if len(self._log) >= self._limit + STEP:
            self._drop(len(self._log) - self._limit)
        while self._log_bytes > self._limit_bytes and len(self._log) > 1:
            self._drop(min(STEP, len(self._log) - 1))

    def _drop(self, count: int) -> None:
        if count <= 0:
            return
        gone, self._log[:count] = self._log[:count], []
        self._log_bytes -= sum(len(change.previous.value) for change in gone if change.previous is not None)
        self._compacted = max(self._compacted, gone[-1].revision)
        self.on_compacted(gone)

    def _check_kept(self, revision: int) -> None:
        if revision < self._compacted:
            raise Compacted(self._compacted)
        if revision > self._revision:
            raise FutureRevision(self._revision)

    def _past(self, revision: int, prefix: str, after: str) -> dict[str, Record | None]:
        """The records at `revision` of the keys that changed since; None for keys that did not exist."""
        self._check_kept(revision)
        past: dict[str, Record | None] = {}
        for change in self._changes(revision, prefix):
            if change.key > after:
                # `previous` of the first change after `revision` is the record at `revision`.
                past.setdefault(change.key, change.previous)
        return past

    def _changes(self, after: int, prefix: str) -> list[Change]:
        start = bisect_right(self._log, after, key=revision_of)
        return [change for change in itertools.islice(self._log, start, None) if change.key.startswith(prefix)]

    def _bounds(self, prefix: str, after: str) -> tuple[int, int]:
        end = behind(prefix)
        low = self._keys.bisect_left(prefix)
        if after >= prefix:
            low = self._keys.bisect_right(after)
        high = len(self._keys) if end is None else self._keys.bisect_left(end)
        return low, max(low, high)

    def _slice(self, prefix: str, after: str, limit: int = 0) -> Iterator[str]:
        low, high = self._bounds(prefix, after)
        keys: Iterator[str] = self._keys.islice(low, min(high, low + limit) if limit else high)
        return keys

    def _merged(self, prefix: str, after: str, past: dict[str, Record | None]) -> Iterator[Record]:
        untouched = (key for key in self._slice(prefix, after) if key not in past)
        for key in heapq.merge(untouched, sorted(past)):
            record = past[key] if key in past else self._records[key]
            if record is not None:
                yield record
