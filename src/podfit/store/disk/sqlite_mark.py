"""The last acknowledged revision, stored beside the database.

SQLite treats a write-ahead log that ends early as truncated by a crash, and starts without its tail; a database file
whose log is missing starts from the last checkpoint. Both would silently lose acknowledged writes. The mark is written
after the log is on the disk, and is not synced itself: after a power failure it may be older than the store, never
newer.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

_FORM = struct.Struct(">8sQI")
_MAGIC = b"podfit01"


class Mark:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def open(self) -> int:
        """The stored revision; 0 if there is none, or none that can be read."""
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = os.pread(self._descriptor, _FORM.size, 0)
        if len(data) < _FORM.size:
            return 0
        magic, revision, crc = _FORM.unpack(data)
        return int(revision) if magic == _MAGIC and crc == zlib.crc32(data[:16]) else 0

    def write(self, revision: int) -> None:
        if self._descriptor is None:
            return
        head = _MAGIC + revision.to_bytes(8, "big")
        # A mark that cannot be written stays at an older revision; that only weakens the check.
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, head + zlib.crc32(head).to_bytes(4, "big"), 0)

    def close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)
