"""The file of the SQLite store: one table, one row per change, and how it is opened, read, appended to and shrunk.

The newest row of a key is its record; older rows and deletions are history and are removed by compaction. Appending is
the cheapest write to a B-tree, no index is needed because the view in memory locates every key, and watchers survive a
restart of the server. One call at a time, from any thread; independent of asyncio.

A statement releases the interpreter lock, and on a busy loop reacquiring it costs up to a switch interval: therefore a
group of writes is executed as one statement with many rows if possible, not as many statements.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import zlib
from pathlib import Path

import msgspec

from podfit.kit.files.atomicfile import sync_folder
from podfit.store.backend import Unusable
from podfit.store.disk.sqlite_mark import Mark
from podfit.store.disk.sqlite_reserve import PAGE, Reserve

SCHEMA = 1
APPLICATION = 0x706F6466  # "podf": identifies the file as ours
WIDEST = 64
VACUUM_PAGES = 4096
SPARE_PAGES = 256
"""Some free pages are the working space of a store in use; releasing and reallocating them would be waste."""
VACUUM_STEPS = 24
USUAL_CHECKPOINT = 1000

CREATE = """
PRAGMA auto_vacuum = INCREMENTAL;
BEGIN;
CREATE TABLE log (
  revision INTEGER PRIMARY KEY, key TEXT NOT NULL, created INTEGER NOT NULL, value BLOB,
  expires REAL NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 0), compacted INTEGER NOT NULL);
INSERT INTO state VALUES (0, 1);
PRAGMA application_id = {application};
PRAGMA user_version = {schema};
COMMIT;
"""


class Row(msgspec.Struct, frozen=True, gc=False):
    revision: int
    key: str
    created: int
    value: bytes | None
    """None if the key was deleted."""
    expires: float
    """Wall-clock time at which the key expires; 0.0: never."""

    def crc(self) -> int:
        head = f"{self.revision} {self.created} {self.expires!r} {self.value is None} {self.key}"
        return zlib.crc32(self.value or b"", zlib.crc32(head.encode("utf-8", "surrogatepass")))


class DiskFull(Exception):
    """The disk is full: nothing was written, and from now on only writes that need almost no space are accepted."""


class SqliteFile:
    def __init__(self, path: Path, busy_s: float = 1.0) -> None:
        self.path = path
        self._busy_s = busy_s
        self._mark = Mark(path.with_name(path.name + ".mark"))
        self.reserve = Reserve(path)
        self.full = False
        """Whether the disk is full: appends then use the reserve, and every append tries to release space."""
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the file is closed")
        return self._connection

    def open(self) -> tuple[int, list[Row]]:
        """Opens the file for this process alone; returns the revision at which history starts and all rows in order."""
        try:
            self._take()
            self._check_log()
            self.reserve.open()
            self._connect()
            loaded = self._load()
            self._take_room(0)
            return loaded
        except sqlite3.Error as error:
            self.close()
            raise Unusable(self._explain(error)) from error
        except OSError as error:
            self.close()
            raise Unusable(
                f"cannot open the store {self.path}: {error.strerror}; check the path and its owner"
            ) from error
        except Unusable:
            self.close()
            raise

    def append(self, rows: list[Row], garbage: list[int], compacted: int) -> None:
        """Inserts new rows and deletes rows of compacted history in one transaction, which is on the disk on return.

        Raises DiskFull when the disk is full; the next calls then work within the reserve.
        """
        if self.full:
            self._append_reserved(rows, garbage, compacted)
        else:
            self._append_counted(rows, garbage, compacted)
        if rows:
            self._mark.write(rows[-1].revision)

    def _append_counted(self, rows: list[Row], garbage: list[int], compacted: int) -> None:
        # A value may start and end within a page, and every row takes some bytes of its own.
        size = 512 * len(rows) + 2 * sum([len(row.value) for row in rows if row.value])
        if not self.reserve.counts(size) and not self._take_room(size):
            raise DiskFull
        try:
            if len(rows) <= WIDEST and not garbage:
                self._insert(rows)  # a single statement is its own transaction
            else:
                self._replace(rows, garbage, compacted)
        except sqlite3.Error as error:
            if is_full(error):
                self.full = True
                raise DiskFull from error
            raise
        if self.reserve.is_lost():
            # The data is on the disk already; if the reserve cannot be renewed, the next writes will find the disk
            # full.
            self._take_room(0)

    def _append_reserved(self, rows: list[Row], garbage: list[int], compacted: int) -> None:
        """Appends in batches that fit into the reserve of the write-ahead log. Old rows are deleted first, so that new
        ones find space.

        The oldest rows are deleted first: if the process dies in between, no deletion record is removed before the row
        that it deleted.
        """
        step, garbage = self._step, sorted(garbage)
        if not rows:
            self._checkpoint()
        for start in range(0, len(garbage), step):
            self._replace([], garbage[start : start + step], compacted)
        if rows:
            self._replace(rows, [], compacted)
        for _ in range(VACUUM_STEPS):
            if not self._vacuum(step):
                break
            self._checkpoint()
        self.full = not (self._take_room(0) and self.reserve.roomy())

    @property
    def _step(self) -> int:
        """The most pages or rows that a transaction may touch on a full disk."""
        return self.reserve.log_bytes // 4 // PAGE

    def _checkpoint(self) -> None:
        """Checkpoints everything to the database, so that the next transaction overwrites the log from its start."""
        self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _take_room(self, size: int) -> bool:
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        try:
            self.reserve.take(pages, size)
        except OSError:
            self.full = True
            return False
        return True

    def _replace(self, rows: list[Row], garbage: list[int], compacted: int) -> None:
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for start in range(0, len(rows), WIDEST):
                self._insert(rows[start : start + WIDEST])
            connection.execute(
                "DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))", (json.dumps(garbage),)
            )
            connection.execute("UPDATE state SET compacted = ?", (compacted,))
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def compact(self, compacted: int) -> None:
        """Records the start of history and returns free pages to the disk, a few MiB at a time."""
        self.connection.execute("UPDATE state SET compacted = max(compacted, ?)", (compacted,))
        self._vacuum(self._step if self.full else VACUUM_PAGES)

    def _vacuum(self, most: int) -> bool:
        (free,) = self.connection.execute("PRAGMA freelist_count").fetchone()
        if free <= SPARE_PAGES:
            return False
        # As a script: `execute` takes one step of a statement without columns, and this one frees one page per step.
        self.connection.executescript(f"PRAGMA incremental_vacuum({min(free - SPARE_PAGES, most)})")
        return True

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self.reserve.close()
        self._mark.close()
        if self._lock is not None:
            lock, self._lock = self._lock, None
            os.close(lock)

    def _check_log(self) -> None:
        """A log exists only after a crash; a clean start needs neither the check nor the library for it."""
        if self.path.with_name(f"{self.path.name}-wal").exists():
            from podfit.store.disk.sqlite_wal import lost_commits, read_wal

            if lost_commits(read_wal(self.path)):
                raise Unusable(self._advice("its write-ahead log is broken before its end"))

    def _take(self) -> None:
        """Locks the store for this process and creates the file if it is missing.

        The lock has a file of its own: SQLite's locks come too late, because it repairs its log before the log can be
        examined.
        """
        lock = self.path.with_name(self.path.name + ".lock")
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unusable(self._in_use()) from error
        if not self.path.exists():
            self._check_never_used()
            self._create()
        elif not self.path.stat().st_size:
            raise Unusable(self._advice("the file is empty"))

    def _check_never_used(self) -> None:
        acknowledged = self._mark.open()
        self._mark.close()
        if acknowledged > 1:
            raise Unusable(
                f"the store {self.path} is missing, but writes up to revision {acknowledged} were acknowledged. "
                f"Restore it from a copy together with its -wal file, or remove {self._mark.path} to start empty"
            )

    def _create(self) -> None:
        """Creates the file under a temporary name and renames it: under its final name a file is always complete, and
        an empty one counts as damaged.
        """
        made = self.path.with_name(self.path.name + ".new")
        made.unlink(missing_ok=True)
        os.close(os.open(made, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite3.connect(made, isolation_level=None)) as connection:
            connection.executescript(CREATE.format(application=APPLICATION, schema=SCHEMA))
        self._mark.path.unlink(missing_ok=True)
        os.replace(made, self.path)
        sync_folder(self.path.parent)

    def _connect(self) -> None:
        self._connection = sqlite3.connect(
            self.path, timeout=self._busy_s, isolation_level=None, check_same_thread=False, cached_statements=128
        )
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL"):
            self.connection.execute(f"PRAGMA {pragma}").fetchall()
        for pragma in ("synchronous = FULL", "journal_size_limit = 16777216", "temp_store = MEMORY"):
            self.connection.execute(f"PRAGMA {pragma}").fetchall()
        # At most half of the log's reserve is in use when the disk becomes full.
        pages = min(USUAL_CHECKPOINT, self.reserve.log_bytes // 2 // PAGE)
        self.connection.execute(f"PRAGMA wal_autocheckpoint = {pages}").fetchall()
        # In exclusive mode the first transaction locks the file, and no other process can open it from here on.
        self.connection.execute("BEGIN EXCLUSIVE")
        self.connection.execute("COMMIT")

    def _insert(self, rows: list[Row]) -> None:
        values: list[object] = []
        for row in rows:
            values += (row.revision, row.key, row.created, row.value, row.expires, row.crc())
        self.connection.execute("INSERT INTO log VALUES " + ",".join(["(?,?,?,?,?,?)"] * len(rows)), values)

    def _load(self) -> tuple[int, list[Row]]:
        self._check_schema()
        (compacted,) = self.connection.execute("SELECT compacted FROM state").fetchone()
        rows = []
        for *fields, crc in self.connection.execute("SELECT * FROM log ORDER BY revision"):
            row = Row(*fields)
            if row.crc() != crc:
                raise Unusable(self._advice(f"the entry of revision {row.revision} is damaged"))
            rows.append(row)
        tail = [row.revision for row in rows if row.revision > compacted]
        if tail and tail[-1] - compacted != len(tail):
            raise Unusable(self._advice(f"entries between revisions {compacted} and {tail[-1]} are missing"))
        self._check_mark(max(compacted, rows[-1].revision if rows else 0))
        return compacted, rows

    def _check_mark(self, newest: int) -> None:
        acknowledged = self._mark.open()
        if acknowledged > newest:
            raise Unusable(
                f"the store {self.path} ends at revision {newest}, but writes up to revision {acknowledged} were "
                "acknowledged: the end of its write-ahead log is missing. Restore it from a copy together with its "
                f"-wal file, or remove {self._mark.path} to go on without the writes that are missing"
            )
        self._mark.write(newest)

    def _check_schema(self) -> None:
        (application,) = self.connection.execute("PRAGMA application_id").fetchone()
        (schema,) = self.connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise Unusable(f"{self.path} is a database of another program; choose another path for the store")
        if schema != SCHEMA:
            raise Unusable(
                f"the store {self.path} has format {schema}, this version reads format {SCHEMA}; "
                "run the version of podfit that wrote it, or a newer one"
            )

    def _explain(self, error: sqlite3.Error) -> str:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return self._in_use()
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return self._advice(str(error))
        return f"cannot open the store {self.path}: {error}; check the path, its owner and the free space"

    def _in_use(self) -> str:
        return f"the store {self.path} is in use by another process; stop that one first, or choose another path"

    def _advice(self, damage: str) -> str:
        return (
            f"the store {self.path} is damaged ({damage}); nothing was thrown away. "
            "Restore it from a copy together with its -wal file, or move these and its .mark file away to start empty"
        )


def is_full(error: BaseException | None) -> bool:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF == sqlite3.SQLITE_FULL
