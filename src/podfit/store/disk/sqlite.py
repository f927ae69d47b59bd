"""The store of a single machine: a view in memory and one SQLite file, with group commit.

Writes that are ready in the same iteration of the loop, or arrive while a transaction is being committed, are committed
together. Each group is checked on the event loop against the view and the writes before it in the group, so there is
one source of truth and no lock. On a fast disk it is written in place, on a slow one by a thread, which only executes
statements. No caller gets a result, Mismatch included, before the disk has confirmed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.inline_calls import InlineCalls
from podfit.store.backend import Change, Mismatch, Record, Unavailable
from podfit.store.disk.sqlite_file import DiskFull, Row, SqliteFile, is_full
from podfit.store.expiry import Expiry
from podfit.store.view import View, next_change

log = logging.getLogger(__name__)

GROUP = 512
GROUP_BYTES = 8 << 20
YIELD_EVERY_S = 0.001
PAUSE_S = 0.00002
FULL = "the store cannot be written: the disk is full"
LOOK_S = 2.0
"""How often a full disk is checked again when there are no writes."""
GROWTH = 4096
"""How much an object may grow on a full disk: enough to record its deletion, or the termination of a pod in its status.
"""
SHORT_HISTORY = 1000


class QueuedWrite(msgspec.Struct, eq=False):
    key: str
    value: bytes | None
    expect: int | None
    expires: float
    done: asyncio.Future[Change]
    outcome: Change | Mismatch | None = None


@dataclass(slots=True)
class CommitGroup:
    """The contents of one transaction, and the writes that wait for it."""

    writes: list[QueuedWrite] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    garbage: list[int] = field(default_factory=list)
    compacted: int = 0
    compactions: list[asyncio.Future[None]] = field(default_factory=list)


class SqliteStore(View):
    def __init__(
        self,
        path: str | Path,
        history: int = 10_000,
        history_bytes: int = 64 << 20,
        clock: Clock | None = None,
        inline: InlineCalls | None = None,
    ) -> None:
        super().__init__(history, history_bytes)
        self._file = SqliteFile(Path(path))
        self._clock = clock or RealClock()
        self._expiry = Expiry(self._clock, self.delete)
        self._queue: deque[QueuedWrite] = deque()
        self._compactions: list[asyncio.Future[None]] = []
        self._garbage: list[int] = []
        self._jobs: SimpleQueue[CommitGroup | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._idle = asyncio.Event()
        self._scheduled = self._in_flight = False
        self._inline = inline or InlineCalls()
        self._yield_timer: asyncio.TimerHandle | None = None
        self._usual = (self._limit, self._limit_bytes)
        self._full = self._clearing = False
        self._grown = 0
        """The growth of all objects since the disk became full."""
        self._look: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        compacted, rows = await asyncio.to_thread(self._file.open)
        # No more history than a small disk has space for.
        self._limit_bytes = min(self._limit_bytes, 8 * self._file.reserve.log_bytes)
        self._usual = (self._limit, self._limit_bytes)
        self._restore(compacted, rows)
        self._follow_disk()
        self._idle.set()
        self._thread = threading.Thread(target=self._carry, name="podfit-store", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Returns after all requested writes are on the disk."""
        thread, self._thread = self._thread, None
        await self._expiry.stop()
        if self._look is not None:
            self._look.cancel()
        if thread is not None:
            await self._idle.wait()
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)
        self.end()

    async def sync(self) -> int:
        return self.revision

    async def put(self, key: str, value: bytes, expect: int | None = None, ttl_s: float = 0) -> Record:
        change = await self._write(key, value, expect, self._clock.now() + ttl_s if ttl_s > 0 else 0.0)
        assert change.record is not None
        return change.record

    async def delete(self, key: str, expect: int | None = None) -> Change:
        return await self._write(key, None, expect, 0.0)

    async def compact(self, revision: int) -> None:
        self._check_open()
        self.forget(revision)
        done: asyncio.Future[None] = self._loop.create_future()
        self._compactions.append(done)
        self._schedule()
        await done

    def on_compacted(self, changes: list[Change]) -> None:
        """Queues rows for deletion: the row that each change replaced and, if the change is a deletion, its own row."""
        for change in changes:
            if change.previous is not None:
                self._garbage.append(change.previous.modified)
            if change.record is None:
                self._garbage.append(change.revision)

    def _check_open(self) -> None:
        if self._thread is None:
            raise Unavailable("the store is closed")

    def _write(self, key: str, value: bytes | None, expect: int | None, expires: float) -> asyncio.Future[Change]:
        self._check_open()
        key.encode()  # a key that cannot be written must fail here, not fail the whole group
        done: asyncio.Future[Change] = self._loop.create_future()
        self._queue.append(QueuedWrite(key, value, expect, expires, done))
        self._schedule()
        return done

    def _schedule(self) -> None:
        # Not immediately, so that writes of other tasks that are ready in this iteration of the loop join the group.
        self._idle.clear()
        if not self._in_flight and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._start_group)

    def _start_group(self) -> None:
        self._scheduled, self._in_flight = False, True
        group = self._next_group()
        if not group.compactions and not self._full and self._inline.in_place():
            began = time.perf_counter()
            error = self._commit(group)
            self._inline.took(time.perf_counter() - began)
            self._settle(group, error)
            return
        self._jobs.put(group)
        self._yield_timer = self._loop.call_later(YIELD_EVERY_S, self._yield_lock)

    def _yield_lock(self) -> None:
        """Yields the interpreter lock to the thread while a group is being written.

        A saturated loop releases the lock only for the instant of a poll, and acquires it again before the thread has
        woken up; the thread's request for the lock then starts over. Without this, writes stalled for seconds.
        """
        time.sleep(PAUSE_S)
        self._yield_timer = self._loop.call_later(YIELD_EVERY_S, self._yield_lock)

    def _next_group(self) -> CommitGroup:
        group, size = CommitGroup(compacted=self.compacted), 0
        group.garbage, self._garbage = self._garbage, []
        group.compactions, self._compactions = self._compactions, []
        ahead: dict[str, Record | None] = {}
        revision = self.revision
        most = self._file.reserve.log_bytes // 4 if self._full else GROUP_BYTES
        clearing, self._clearing = self._clearing, False
        while self._queue and not clearing and len(group.writes) < GROUP and size < most:
            write = self._queue.popleft()
            if write.done.cancelled():
                continue
            current = ahead[write.key] if write.key in ahead else self.get(write.key)
            if self._full and not self._spares_room(write, current):
                write.done.set_exception(Unavailable(FULL))
                continue
            group.writes.append(write)
            try:
                change = next_change(current, write.key, write.value, write.expect, revision + 1)
            except Mismatch as mismatch:
                write.outcome = mismatch
                continue
            revision += 1
            write.outcome = change
            ahead[write.key] = change.record
            created = revision if change.record is None else change.record.created
            group.rows.append(Row(revision, change.key, created, write.value, write.expires))
            size += len(write.value or b"")
            if self._full and current is not None:
                self._grown = max(0, self._grown + len(write.value or b"") - len(current.value))
        return group

    def _carry(self) -> None:
        """The main function of the writer thread."""
        while (group := self._jobs.get()) is not None:
            error = self._commit(group)
            try:
                self._loop.call_soon_threadsafe(self._settle, group, error)
            except RuntimeError:
                break  # the loop is closed: nothing waits for the result any more
        self._file.close()

    def _commit(self, group: CommitGroup) -> Exception | None:
        try:
            if group.rows or group.garbage or self._full:
                self._file.append(group.rows, group.garbage, group.compacted)
            if group.compactions:
                self._file.compact(group.compacted)
        except Exception as failure:
            return failure
        return None

    def _settle(self, group: CommitGroup, error: Exception | None) -> None:
        self._in_flight = False
        if self._yield_timer is not None:
            self._yield_timer.cancel()
            self._yield_timer = None
        if isinstance(error, DiskFull):
            self._decide_again(group)
        elif error is not None:
            self._refuse(group, error)
        else:
            self.problem = ""
            for write in group.writes:
                self._finish(write)
            for done in group.compactions:
                if not done.done():
                    done.set_result(None)
        self._follow_disk()
        if self._queue or self._compactions:
            self._schedule()
        else:
            self._idle.set()

    def _spares_room(self, write: QueuedWrite, current: Record | None) -> bool:
        """Whether a write is accepted on a full disk: a deletion, or one that does not grow the object by much."""
        if write.value is None:
            return True
        if current is None:
            return False
        growth = len(write.value) - len(current.value)
        return growth <= 0 or (growth <= GROWTH and self._grown + growth <= self._file.reserve.bytes // 4)

    def _decide_again(self, group: CommitGroup) -> None:
        """Queues the writes of a group again after the disk was found full: history is compacted first, then each write
        is accepted or rejected."""
        self._clearing = True
        self._queue.extendleft(reversed(group.writes))
        self._garbage = group.garbage + self._garbage
        self._compactions = group.compactions + self._compactions

    def _follow_disk(self) -> None:
        """After each group: updates whether the disk is full, and reacts to a change."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self._file.full != self._full:
            self._full, self._grown = self._file.full, 0
            log.error("store: %s", f"{FULL}: only deletions go on" if self._full else "the disk has room again")
        if not self._full:
            self._limit, self._limit_bytes = self._usual
            return
        self.problem = FULL
        # Replaced or deleted values are retained for watches that resume; on a full disk their space is needed more.
        self._limit = min(self._usual[0], SHORT_HISTORY)
        self._limit_bytes = min(self._usual[1], self._file.reserve.bytes // 4)
        self._trim()
        self._look = self._loop.call_later(LOOK_S, self._schedule)

    def _finish(self, write: QueuedWrite) -> None:
        outcome = write.outcome
        if isinstance(outcome, Change):
            self.apply(outcome)
            if write.expires:
                self._expiry.set(outcome.key, write.expires, outcome.revision)
            else:
                self._expiry.drop(outcome.key)
        if write.done.done():
            return
        if isinstance(outcome, Change):
            write.done.set_result(outcome)
        else:
            write.done.set_exception(outcome or Unavailable("the write was not decided"))

    def _refuse(self, group: CommitGroup, error: Exception) -> None:
        log.error("store: %d writes failed: %s", len(group.writes), error)
        self._garbage = group.garbage + self._garbage
        self.problem = reason = FULL if is_full(error) else f"the store cannot be written: {error}"
        waiting: list[asyncio.Future[Any]] = [*(write.done for write in group.writes), *group.compactions]
        for done in waiting:
            if not done.done():
                done.set_exception(Unavailable(reason))

    def _restore(self, compacted: int, rows: list[Row]) -> None:
        base: dict[str, Record] = {}
        expires: dict[str, tuple[float, int]] = {}
        split = next((at for at, row in enumerate(rows) if row.revision > compacted), len(rows))
        for row in rows[:split]:
            # Older rows of a key and deletions exist only if the process exited while it was removing them.
            if (older := base.pop(row.key, None)) is not None:
                self._garbage.append(older.modified)
            if row.value is not None:
                base[row.key] = Record(row.key, row.value, row.created, row.revision)
            else:
                self._garbage.append(row.revision)
        self.reset(base.values(), compacted, compacted)
        for row in rows[split:]:
            self.apply(next_change(self.get(row.key), row.key, row.value, None, row.revision))
        for row in rows:
            expires[row.key] = (row.expires, row.revision)
        for key, (deadline, revision) in expires.items():
            if deadline and self.get(key) is not None:
                self._expiry.set(key, deadline, revision)
