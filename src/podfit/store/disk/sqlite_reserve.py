"""Room for the writes that make room: what the database and its write-ahead log may still grow at a full disk.

Both files hold blocks beyond their end (`podfit.kit.files.slack`). Each group of writes is counted before it is made,
and the blocks are taken for it in advance; a disk that cannot give them is full, although the blocks of the reserve
are left. From then on the store accepts only writes that need next to nothing, until there is room again.
"""

from __future__ import annotations

import os
from pathlib import Path

from podfit.kit.files.slack import take_slack

_SMALLEST, _LARGEST = 512 << 10, 8 << 20
PAGE = 4096


class Reserve:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal_path = path.with_name(f"{path.name}-wal")
        self._database = self._wal = -1
        self._left = 0
        """How much the database may grow, as far as it was counted, before room is taken again."""
        self._held = True
        """False on a file system that cannot hold room for a file."""
        self.log_bytes = _LARGEST
        """What the write-ahead log may hold; the database gets twice as much."""

    @property
    def bytes(self) -> int:
        return 2 * self.log_bytes

    def open(self) -> None:
        """To be called before SQLite opens the file: closing a descriptor of it would drop SQLite's locks."""
        self._database = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        found = os.fstatvfs(self._database)
        self.log_bytes = min(_LARGEST, max(_SMALLEST, found.f_blocks * found.f_frsize // 64))

    def close(self) -> None:
        """To be called after SQLite closed the file; what both files had is kept for the next start."""
        if self._database >= 0 and self._held:
            _take_most(self._database, os.fstat(self._database).st_size, self.bytes + self.log_bytes)
        for descriptor in (self._database, self._wal):
            if descriptor >= 0:
                os.close(descriptor)
        self._database = self._wal = -1

    def counts(self, size: int) -> bool:
        """Whether a group of `size` bytes is covered by what was taken already."""
        self._left -= size
        return self._left > 0

    def is_lost(self) -> bool:
        """Whether the database was truncated since its room was taken: each checkpoint does that."""
        found = os.fstat(self._database)
        return self._held and found.st_blocks * 512 < found.st_size + self.bytes

    def take(self, pages: int, size: int) -> None:
        """Takes the room that `size` more bytes and the reserve behind them need.

        Raises OSError if there is less, and has taken what there is.
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
            self._held = take_slack(self._wal, 0, self.log_bytes)
            take_slack(self._database, end, room)
        except OSError:
            self._take_less(end, room)
            raise
        self._left = margin

    def _take_less(self, end: int, room: int) -> None:
        """What there is. The log was removed at the last stop, and may need a part of what the database has."""
        try:
            take_slack(self._wal, 0, self.log_bytes)
        except OSError:
            os.ftruncate(self._database, end)
            _take_most(self._wal, 0, self.log_bytes)
        _take_most(self._database, end, room)

    def roomy(self) -> bool:
        """Whether the disk has enough for all writes again, with some distance to the next time it is full."""
        found = os.fstatvfs(self._database)
        return found.f_bavail * found.f_frsize >= self.bytes


def _take_most(descriptor: int, end: int, room: int) -> None:
    """As much as there is."""
    stop, step = end + room, room
    while step >= PAGE and end < stop:
        try:
            take_slack(descriptor, end, step)
            end += step
        except OSError:
            step //= 2
