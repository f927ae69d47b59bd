"""The file below the SQLite store: one table, a row per change, and how it is opened, read, appended to and shrunk.

The newest row of a key is its record; older rows and deletions are history and go when history goes. Appending is the
cheapest write a B-tree knows, no index is needed because the view in memory knows where everything is, and watchers
survive a restart of the server. One call at a time, from any thread; knows nothing of asyncio.

A statement gives up the interpreter lock, and on a busy loop getting it back costs up to a switch interval: a group of
writes therefore goes out in one statement with many rows where it can, not in many statements.
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
APPLICATION = 0x706F6466  # "podf": says whose file it is
WIDEST = 64
VACUUM_PAGES = 4096
SPARE_PAGES = 256
"""Some free pages are the working room of a store in use; moving them in and out would only cost."""
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
    """None: the key was deleted."""
    expires: float
    """Wall-clock time at which the key vanishes; 0.0: never."""

    def crc(self) -> int:
        head = f"{self.revision} {self.created} {self.expires!r} {self.value is None} {self.key}"
        return zlib.crc32(self.value or b"", zlib.crc32(head.encode("utf-8", "surrogatepass")))


class DiskFull(Exception):
    """Nothing was written, and from now on only what needs next to no room is."""


class SqliteFile:
    def __init__(self, path: Path, busy_s: float = 1.0) -> None:
        self.path = path
        self._busy_s = busy_s
        self._mark = Mark(path.with_name(path.name + ".mark"))
        self.reserve = Reserve(path)
        self.full = False
        """The disk is: what is appended lives on the reserve, and every append tries to give room back."""
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the file is closed")
        return self._connection

    def open(self) -> tuple[int, list[Row]]:
        """Takes the file for this process alone; the revision history starts at, and all rows in order."""
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
        """One transaction: new rows in, rows of forgotten history out. On return it is on the disk.

        Raises DiskFull when it finds that the disk is, and does with less from the next call on.
        """
        if self.full:
            self._append_reserved(rows, garbage, compacted)
        else:
            self._append_counted(rows, garbage, compacted)
        if rows:
            self._mark.write(rows[-1].revision)

    def _append_counted(self, rows: list[Row], garbage: list[int], compacted: int) -> None:
        # A value may begin and end within a page, and every row takes some bytes besides.
        size = 512 * len(rows) + 2 * sum([len(row.value) for row in rows if row.value])
        if not self.reserve.counts(size) and not self._take_room(size):
            raise DiskFull
        try:
            if len(rows) <= WIDEST and not garbage:
                self._insert(rows)  # a statement on its own is a transaction
            else:
                self._replace(rows, garbage, compacted)
        except sqlite3.Error as error:
            if is_full(error):
                self.full = True
                raise DiskFull from error
            raise
        if self.reserve.is_lost():
            # What was written is on the disk; if there is no room behind it, the next writes find the disk full.
            self._take_room(0)

    def _append_reserved(self, rows: list[Row], garbage: list[int], compacted: int) -> None:
        """In pieces that the reserve of the write-ahead log can hold. Old rows go first, so that new ones find room.

        The oldest of them first: if the process dies in between, no deletion is forgotten before what it deleted.
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
        """How many pages or rows a transaction may touch at a full disk."""
        return self.reserve.log_bytes // 4 // PAGE

    def _checkpoint(self) -> None:
        """Moves everything to the database, so that the next transaction writes over the log from its beginning."""
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
        """Notes the start of history and gives pages no longer needed back to the disk, a few MiB at a time."""
        self.connection.execute("UPDATE state SET compacted = max(compacted, ?)", (compacted,))
        self._vacuum(self._step if self.full else VACUUM_PAGES)

    def _vacuum(self, most: int) -> bool:
        (free,) = self.connection.execute("PRAGMA freelist_count").fetchone()
        if free <= SPARE_PAGES:
            return False
        # As a script: `execute` takes one step of a statement without columns, and this one frees a page a step.
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
        """There is one only after a crash; a clean stop needs neither the check nor the library it takes."""
        if self.path.with_name(f"{self.path.name}-wal").exists():
            from podfit.store.disk.sqlite_wal import lost_commits, read_wal

            if lost_commits(read_wal(self.path)):
                raise Unusable(self._advice("its write-ahead log is broken before its end"))

    def _take(self) -> None:
        """Locks the store for this process and makes the file if it is not there.

        The lock has a file of its own: SQLite's locks come too late, it repairs its log before it can be looked at.
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
        """Under another name first: a file under its own name is always a whole one, and an empty one is damage."""
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
        # At most half of the log's reserve is in use when the disk turns out to be full.
        pages = min(USUAL_CHECKPOINT, self.reserve.log_bytes // 2 // PAGE)
        self.connection.execute(f"PRAGMA wal_autocheckpoint = {pages}").fetchall()
        # In exclusive mode the first transaction takes the file, and no other process can open it from here on.
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
