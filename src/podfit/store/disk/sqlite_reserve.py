"""A disk reserve for writes that free space: how much the database and its write-ahead log may still grow on a full
disk.

Both files have blocks preallocated beyond their end (`podfit.kit.files.preallocation`). The size of each group of
writes is computed first, and blocks are allocated for it in advance; if that fails, the disk is full, although the
reserve is still there. From then on the store accepts only writes that need almost no space, until space is available
again.
"""

from __future__ import annotations

import os
from pathlib import Path

from podfit.kit.files.preallocation import preallocate

_SMALLEST, _LARGEST = 512 << 10, 8 << 20
PAGE = 4096


class Reserve:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal_path = path.with_name(f"{path.name}-wal")
        self._database = self._wal = -1
        self._left = 0
        """How much the database may still grow, by our count, before blocks are allocated again."""
        self._held = True
        """False on a file system that does not support preallocation."""
        self.log_bytes = _LARGEST
        """The size reserved for the write-ahead log; the database gets twice as much."""

    @property
    def bytes(self) -> int:
        return 2 * self.log_bytes

    def open(self) -> None:
        """Call before SQLite opens the file: closing a descriptor of it would drop SQLite's locks."""
        self._database = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        found = os.fstatvfs(self._database)
        self.log_bytes = min(_LARGEST, max(_SMALLEST, found.f_blocks * found.f_frsize // 64))

    def close(self) -> None:
        """Call after SQLite closed the file; the reserve of both files is kept for the next start."""
        if self._database >= 0 and self._held:
            _take_most(self._database, os.fstat(self._database).st_size, self.bytes + self.log_bytes)
        for descriptor in (self._database, self._wal):
            if descriptor >= 0:
                os.close(descriptor)
        self._database = self._wal = -1

    def counts(self, size: int) -> bool:
        """Whether a group of `size` bytes fits into the blocks already allocated; subtracts it from them."""
        self._left -= size
        return self._left > 0

    def is_lost(self) -> bool:
        """Whether the database has lost its preallocated blocks: each checkpoint truncates the file."""
        found = os.fstat(self._database)
        return self._held and found.st_blocks * 512 < found.st_size + self.bytes

    def take(self, pages: int, size: int) -> None:
        """Allocates blocks for `size` more bytes and the reserve behind them.

        Raises OSError if there is not enough space, after allocating what there is.
        """
        self._left = 0
        if not self._held:
            return
        if self._wal < 0:
            # SQLite removes the log when it closes the file, never while it is open.
            self._wal = os.open(self._wal_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        end = os.fstat(self._database).st_size
        margin = self.bytes // 4
        room = max(end, pages * PAGE) - end + size + self.bytes + margin
        try:
            self._held = preallocate(self._wal, 0, self.log_bytes)
            preallocate(self._database, end, room)
        except OSError:
            self._take_less(end, room)
            raise
        self._left = margin

    def _take_less(self, end: int, room: int) -> None:
        """Restores the reserve at the start. The log was removed at the last stop, and may need part of the database's
        reserve.
        """
        try:
            preallocate(self._wal, 0, self.log_bytes)
        except OSError:
            os.ftruncate(self._database, end)
            _take_most(self._wal, 0, self.log_bytes)
        _take_most(self._database, end, room)

    def roomy(self) -> bool:
        """Whether the disk has enough space for all writes again, with hysteresis."""
        found = os.fstatvfs(self._database)
        return found.f_bavail * found.f_frsize >= self.bytes


def _take_most(descriptor: int, end: int, room: int) -> None:
    """Allocates as much as there is."""
    stop, step = end + room, room
    while step >= PAGE and end < stop:
        try:
            preallocate(descriptor, end, step)
            end += step
        except OSError:
            step //= 2
