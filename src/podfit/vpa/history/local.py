"""The history in one SQLite file: one row for every few minutes, with all samples of that time as columns.

Rows are written and read whole, so reading and writing are as fast as copying, and loading streams the rows in order of
time. At most one sample per minute and container is stored: the mean of its CPU usage, the maximum of its memory.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from podfit.kit.clock import Clock, RealClock
from podfit.vpa.history.base import NONE, Batch, HistoryUnavailable, Series, Sink
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.evidence.oom import Oom

log = logging.getLogger(__name__)

T = TypeVar("T")
DAY = 86400.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, namespace TEXT, pod TEXT, container TEXT, labels TEXT);
CREATE TABLE IF NOT EXISTS rows (base REAL, last REAL, samples INTEGER, columns BLOB);
CREATE INDEX IF NOT EXISTS rows_by_time ON rows (base);
CREATE TABLE IF NOT EXISTS ooms (at REAL, namespace TEXT, pod TEXT, container TEXT, memory INTEGER);
CREATE INDEX IF NOT EXISTS ooms_by_time ON ooms (at);
"""
_COLUMNS = np.dtype([("id", "<u4"), ("at", "<f4"), ("cpu", "<i8"), ("memory", "<i8")])
_CLEAN_EVERY_S = 3600.0
_Waiting = tuple[NDArray[np.int64], Batch]
"""A batch with series numbers instead of series."""


class LocalHistory:
    writes_checkpoints = True
    keeps_samples = True

    def __init__(
        self, file: Path, *, days: float = 8.0, resolution_s: float = 60.0, clock: Clock | None = None
    ) -> None:
        self._file, self._days, self._resolution_s = file, days, resolution_s
        self._clock = clock or RealClock()
        self._lock = asyncio.Lock()
        self._database: sqlite3.Connection | None = None
        self._ids: dict[Series, int] = {}
        self._new: dict[int, Series] = {}
        self._next_id = 1
        self._last: dict[int, Seconds] = {}
        """When each series, by number, last had a sample. Series of deleted pods are dropped after a while."""
        self._whole = False
        """Whether the whole file was read, so that series without samples are not in it."""
        self._waiting: list[_Waiting] = []
        self._cleaned = float("-inf")
        self._loaded_until: Seconds = float("-inf")
        self._ooms_until: Seconds = float("-inf")
        self._newest: Seconds = float("-inf")
        """The time of the newest sample. Age is relative to it, so that nothing is deleted while no samples arrive."""

    # --- History

    async def load(self, sink: Sink, until: Seconds) -> None:
        series = await self._work(self._read_series)
        self._newest = max(self._newest, await self._work(_newest_sample))
        oldest = min(until, self._newest) - self._days * DAY
        for at in await self._work(lambda db: _row_ids(db, max(oldest, self._loaded_until), until)):
            base, batch = await self._work(partial(self._read_row, row=at, series=series))
            sink.take(batch)
            self._loaded_until = base
            for id in [self._ids[measured] for measured in batch.series if measured in self._ids]:
                self._last[id] = max(base, self._last.get(id, base))
        self._whole = True

    def record(self, batch: Batch) -> None:
        ids = np.fromiter((self._id(series) for series in batch.series), np.int64, len(batch.series))
        # Numbers represent series: a minute of samples would need a hundred thousand series objects.
        self._waiting.append((ids, replace(batch, series=())))
        if len(batch.times):
            self._newest = max(self._newest, min(float(batch.times.max()), self._clock.now()))
        self._last.update(dict.fromkeys(ids.tolist(), self._clock.now()))

    async def flush(self) -> None:
        """Writes completed minutes. Samples of the current minute stay in memory until it ends."""
        await self._write(self._clock.now() // self._resolution_s * self._resolution_s)

    async def close(self) -> None:
        try:
            await self._write(float("inf"))
        except HistoryUnavailable as error:
            log.warning("the latest samples are lost: %s", error)
        finally:
            async with self._lock:
                if self._database is not None:
                    self._database.close()
                    self._database = None

    # --- writing

    def _id(self, series: Series) -> int:
        found = self._ids.get(series)
        if found is None:
            found = self._ids[series] = self._next_id
            self._next_id += 1
            self._new[found] = series
        return found

    async def _write(self, before: Seconds) -> None:
        if not self._waiting and self._database is None:
            return
        if self._database is None:
            # Numbers that were assigned before the file was read may already be in use in the file.
            await self._work(self._read_series)
        rows, ooms = await self._take_before(before)
        new, self._new = self._new, {}
        oldest = self._clean_before()
        gone = self._drop_unused(oldest) if oldest is not None and self._whole else []
        await self._work(lambda db: self._insert(db, rows, ooms, new, oldest, gone))

    def _clean_before(self) -> Seconds | None:
        """The time before which rows are deleted, once an hour; otherwise None."""
        now = self._clock.monotonic()
        if now - self._cleaned < _CLEAN_EVERY_S:
            return None
        self._cleaned = now
        return min(self._clock.now(), self._newest) - (self._days + 1) * DAY

    def _drop_unused(self, oldest: Seconds) -> list[int]:
        """Drops series without recent samples, and returns their numbers."""
        gone = {id for id in self._ids.values() if self._last.get(id, float("-inf")) < oldest}
        self._ids = {series: id for series, id in self._ids.items() if id not in gone}
        self._last = {id: at for id, at in self._last.items() if id not in gone}
        return sorted(gone)

    async def _take_before(self, before: Seconds) -> tuple[NDArray[Any], list[Oom]]:
        """Takes the samples before an instant, as one table, and the events; later ones stay in memory. Runs in a
        thread, because a minute of a large fleet takes some tenths of a second."""
        waiting, self._waiting = self._waiting, []
        rest = waiting
        try:
            table, ooms, rest = await asyncio.to_thread(self._parted, waiting, before)
        finally:
            self._waiting = rest + self._waiting
        return table, ooms

    def _parted(self, waiting: list[_Waiting], before: Seconds) -> tuple[NDArray[Any], list[Oom], list[_Waiting]]:
        parts: list[NDArray[Any]] = []
        ooms: list[Oom] = []
        rest: list[_Waiting] = []
        for ids, batch in waiting:
            ooms += batch.ooms
            ripe = batch.times < before
            table = np.zeros(int(ripe.sum()), [("id", "i8"), ("at", "f8"), ("cpu", "i8"), ("memory", "i8")])
            table["id"], table["at"] = ids[batch.index[ripe]], batch.times[ripe]
            table["cpu"], table["memory"] = batch.cpu[ripe], batch.memory[ripe]
            parts.append(table)
            if not ripe.all():
                left = ~ripe
                kept = Batch((), batch.index[left], batch.times[left], batch.cpu[left], batch.memory[left])
                rest.append((ids, kept))
        table = np.concatenate(parts) if parts else np.zeros(0, [("id", "i8"), ("at", "f8")])
        return self._thinned(table), ooms, rest

    def _thinned(self, table: NDArray[Any]) -> NDArray[Any]:
        """Reduces a table to one sample per series and minute."""
        if not len(table):
            return table
        minute = np.floor(table["at"] / self._resolution_s)
        table = table[np.lexsort((table["at"], table["id"], minute))]
        minute = np.floor(table["at"] / self._resolution_s)
        starts = np.flatnonzero(np.r_[True, (np.diff(minute) != 0) | (np.diff(table["id"]) != 0)])
        lengths = np.diff(np.r_[starts, len(table)])
        thin = table[starts + lengths - 1].copy()
        valued = table["cpu"] != NONE
        sums = np.add.reduceat(np.where(valued, table["cpu"], 0), starts)
        counts = np.add.reduceat(valued.astype(np.int64), starts)
        thin["cpu"] = np.where(counts > 0, sums // np.maximum(counts, 1), NONE)
        thin["memory"] = np.maximum.reduceat(table["memory"], starts)
        ordered: NDArray[Any] = thin[np.argsort(thin["at"], kind="stable")]
        return ordered

    def _insert(
        self,
        db: sqlite3.Connection,
        table: NDArray[Any],
        ooms: list[Oom],
        new: dict[int, Series],
        oldest: Seconds | None,
        gone: list[int],
    ) -> None:
        with db:
            db.executemany(
                "INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?, ?)",
                [(id, *series) for id, series in new.items()],
            )
            if len(table):
                base = float(table["at"][0])
                packed = np.zeros(len(table), _COLUMNS)
                packed["id"], packed["at"] = table["id"], table["at"] - base
                packed["cpu"], packed["memory"] = table["cpu"], table["memory"]
                # Column by column the data compresses much better than sample by sample.
                columns = b"".join(packed[name].tobytes() for name in ("id", "at", "cpu", "memory"))
                row = (base, float(table["at"][-1]), len(table), zlib.compress(columns, 1))
                db.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", row)
            db.executemany(
                "INSERT INTO ooms VALUES (?, ?, ?, ?, ?)",
                [(oom.instant, oom.namespace, oom.pod, oom.container, oom.memory) for oom in ooms],
            )
            if oldest is not None:
                db.execute("DELETE FROM rows WHERE last < ?", (oldest,))
                db.execute("DELETE FROM ooms WHERE at < ?", (oldest,))
                db.executemany("DELETE FROM series WHERE id = ?", [(id,) for id in gone])

    # --- reading

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._database = self._connected()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                # A damaged file is renamed, so that it can still be examined, and a new one is created.
                aside = self._file.with_name(f"{self._file.name}.damaged")
                log.error("history file %s: %s; it is renamed to %s, starting a new one", self._file, error, aside)
                self._file.replace(aside)
                for rest in ("-wal", "-shm"):
                    self._file.with_name(f"{self._file.name}{rest}").unlink(missing_ok=True)
                self._database = self._connected()
        return self._database

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            database.executescript(_SCHEMA)
        except sqlite3.Error:
            database.close()
            raise
        return database

    async def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        async with self._lock:
            running = asyncio.ensure_future(asyncio.to_thread(lambda: work(self._open())))
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                # The thread cannot be interrupted, so the file must not be closed before it ends.
                await asyncio.wait({running})
                raise
            except sqlite3.Error as error:
                raise HistoryUnavailable(f"history file {self._file}: {error}") from error

    def _read_series(self, db: sqlite3.Connection) -> dict[int, Series]:
        found: dict[int, Series] = {}
        for id, namespace, pod, container, labels in db.execute("SELECT * FROM series"):
            found[id] = Series(namespace, pod, container, labels)
        fresh = dict(self._new)
        shift = max(found, default=0)
        if fresh and shift >= min(fresh):
            # Series that were seen before the file was read get numbers after those in the file.
            self._new = {id + shift: series for id, series in fresh.items()}
            self._ids = {key: id + shift for key, id in self._ids.items()}
            self._last = {id + shift: at for id, at in self._last.items()}
            self._waiting = [(ids + shift, batch) for ids, batch in self._waiting]
            self._next_id += shift
        for id, series in found.items():
            self._ids.setdefault(series, id)
        self._next_id = max(self._next_id, shift + 1)
        return found

    def _read_row(self, db: sqlite3.Connection, row: int, series: dict[int, Series]) -> tuple[Seconds, Batch]:
        base, last, samples, blob = db.execute(
            "SELECT base, last, samples, columns FROM rows WHERE rowid = ?", (row,)
        ).fetchone()
        columns = self._unpacked(blob, samples, row)
        samples = len(columns) // _COLUMNS.itemsize
        ids = np.frombuffer(columns, "<u4", samples)
        at = np.frombuffer(columns, "<f4", samples, 4 * samples)
        cpu = np.frombuffer(columns, "<i8", samples, 8 * samples)
        memory = np.frombuffer(columns, "<i8", samples, 16 * samples)
        distinct, index = np.unique(ids, return_inverse=True)
        known = np.array([int(id) in series for id in distinct], np.bool_)
        who = [series.get(int(id)) or Series("", "", "", "") for id in distinct]
        good = known[index]
        # Events since the previous row: some fall between two rows.
        found = db.execute("SELECT * FROM ooms WHERE at > ? AND at <= ? ORDER BY at", (self._ooms_until, last))
        ooms = [Oom(namespace, pod, container, at, memory) for at, namespace, pod, container, memory in found]
        self._ooms_until = last
        return base, Batch(who, index[good], base + at[good].astype(np.float64), cpu[good], memory[good], ooms)

    def _unpacked(self, blob: bytes, samples: int, row: int) -> bytes:
        """Decompresses a row; empty if it is damaged. The other rows are not affected."""
        try:
            columns = zlib.decompress(blob)
        except (zlib.error, TypeError) as error:
            log.warning("history file %s: row %d is damaged: %s", self._file, row, error)
            return b""
        if len(columns) != samples * _COLUMNS.itemsize:
            log.warning("history file %s: row %d is damaged", self._file, row)
            return b""
        return columns


def _newest_sample(db: sqlite3.Connection) -> Seconds:
    (found,) = db.execute("SELECT max(last) FROM rows").fetchone()
    return float("-inf") if found is None else float(found)


def _row_ids(db: sqlite3.Connection, after: Seconds, until: Seconds) -> list[int]:
    found = db.execute("SELECT rowid FROM rows WHERE base > ? AND base < ? ORDER BY base", (after, until))
    return [row for (row,) in found]
