"""Distinguishes a torn write-ahead log from a damaged one, before SQLite opens it.

SQLite reads the log up to the first frame with a wrong checksum and discards the rest as an incomplete write. That is
right for the last transaction, which was never acknowledged. But each commit waits for the disk before the next one
starts, so a bad frame followed by two complete commits is not a torn write: it is damage, and what follows was
acknowledged. Opening such a file would lose it silently. File format: https://sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEADER = struct.Struct(">8I")
FRAME_HEAD = 24
MAGIC = 0x377F0682
USUAL_PAGE = 4096

Words = NDArray[np.uint32]


def read_wal(database: Path) -> bytes:
    try:
        return database.with_name(database.name + "-wal").read_bytes()
    except FileNotFoundError:
        return b""


def lost_commits(wal: bytes) -> bool:
    """Whether `wal` contains acknowledged commits after the point where SQLite would stop reading."""
    if len(wal) < HEADER.size:
        return False
    magic, _, page, _, salt1, salt2, sum1, sum2 = HEADER.unpack_from(wal)
    order = ">" if magic & 1 else "<"
    head = np.frombuffer(wal, f"{order}u4", 6).astype(np.uint32)[None, :]
    start = np.array([[sum1, sum2]], np.uint32)
    sound = magic & ~1 == MAGIC and bool((_checksums(head, np.zeros((1, 2), np.uint32)) == start).all())
    if not sound:  # the header cannot be trusted: assume what this machine would have written
        page, order = USUAL_PAGE, ">" if sys.byteorder == "big" else "<"
    frames = _frames(wal, page)
    if not len(frames):
        return False
    heads = frames[:, :FRAME_HEAD].copy().view(">u4").astype(np.uint32)
    claimed = heads[:, 4:6]
    words = np.concatenate([frames[:, :8], frames[:, FRAME_HEAD:]], axis=1).view(f"{order}u4").astype(np.uint32)
    # Each frame is checked against the checksum stored in the frame before it, so damage to one frame does not hide
    # the frames behind it.
    whole = (_checksums(words, np.concatenate([start, claimed[:-1]])) == claimed).all(axis=1)
    if sound:  # different salts: left over from an earlier cycle of the log
        whole &= (heads[:, 2] == salt1) & (heads[:, 3] == salt2)
    stop = int(np.argmin(whole)) + 1 if sound else 0
    if sound and whole.all():
        return False
    # The first commit after the damage may belong to the incomplete transaction.
    return int((whole & (heads[:, 1] > 0))[stop:].sum()) >= 2


def _frames(wal: bytes, page: int) -> NDArray[np.uint8]:
    step = FRAME_HEAD + page
    count = (len(wal) - HEADER.size) // step
    return np.frombuffer(wal, np.uint8, count * step, HEADER.size).reshape(count, step)


def _checksums(words: Words, start: Words) -> Words:
    """SQLite's checksum of each row of `words`, starting from `start`.

    A step is s0 += even + s1; s1 += odd + s0, a linear map of (s0, s1), so a row's result is a weighted sum of its
    words modulo 2^32; the weights are powers of the map's matrix.
    """
    pairs = words.shape[1] // 2
    powers = np.empty((pairs + 1, 2, 2), np.uint32)
    powers[0] = np.eye(2, dtype=np.uint32)
    step = np.array([[1, 1], [1, 2]], np.uint32)
    for at in range(pairs):
        powers[at + 1] = powers[at] @ step
    weights = powers[pairs - 1 :: -1] if pairs > 1 else powers[:1]
    even, odd = words[:, 0::2], words[:, 1::2]
    sums: Words = start @ powers[pairs].T + even @ weights.sum(axis=2, dtype=np.uint32) + odd @ weights[:, :, 1]
    return sums
