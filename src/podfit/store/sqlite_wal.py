"""Tells a torn write-ahead log from a damaged one.

SQLite reads the log up to the first frame that does not check out and takes the rest for a write cut short. That is
right for the last transaction, which nobody was told had succeeded. But each commit waits for the disk before the
next one starts, so a bad frame with two whole commits behind it is no torn write: it is damage, and what follows was
acknowledged. Opening such a file would lose it silently. File format: https://sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
from pathlib import Path

HEADER = struct.Struct(">8I")
FRAME = struct.Struct(">6I")
MAGIC = 0x377F0682


def read_wal(database: Path) -> bytes:
    try:
        return database.with_name(database.name + "-wal").read_bytes()
    except FileNotFoundError:
        return b""


def lost_commits(wal: bytes, whole: int) -> bool:
    """Whether commits that were acknowledged stand in `wal` behind its `whole` good frames."""
    if len(wal) < HEADER.size:
        return False
    magic, _, page, _, salt1, salt2, *_ = HEADER.unpack_from(wal)
    if magic & ~1 != MAGIC or not 512 <= page <= 65536:
        # A first header cut short has nothing acknowledged behind it, so nothing to miss.
        return len(wal) >= HEADER.size + 2 * (FRAME.size + page if 512 <= page <= 65536 else 4096)
    order = ">" if magic & 1 else "<"
    step, commits = FRAME.size + page, 0
    for at in range(HEADER.size + (whole + 1) * step, len(wal) - step + 1, step):
        _, size, s1, s2, c1, c2 = FRAME.unpack_from(wal, at)
        if (s1, s2) != (salt1, salt2):
            return False  # from an earlier turn of the log
        if size and _checksum(wal, at, step, order) == (c1, c2):
            commits += 1
    # The first commit behind the damage may belong to the transaction that was cut short.
    return commits >= 2


def _checksum(wal: bytes, at: int, step: int, order: str) -> tuple[int, int]:
    """The checksum of one frame, starting from the one its predecessor claims."""
    before = FRAME.unpack_from(wal, at - step)
    s0, s1 = before[4], before[5]
    words = struct.unpack_from(f"{order}2I", wal, at) + struct.unpack_from(
        f"{order}{(step - FRAME.size) // 4}I", wal, at + FRAME.size
    )
    for even, odd in zip(words[::2], words[1::2], strict=True):
        s0 = (s0 + even + s1) & 0xFFFFFFFF
        s1 = (s1 + odd + s0) & 0xFFFFFFFF
    return s0, s1
