"""Damage anywhere in a write-ahead log is found if at least two acknowledged commits follow it."""

from __future__ import annotations

import sqlite3
import struct
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.store.disk.sqlite_wal import _checksums, lost_commits, read_wal

STEP = 24 + 4096


def plain_checksum(words: list[int], s0: int, s1: int) -> tuple[int, int]:
    for even, odd in zip(words[::2], words[1::2], strict=True):
        s0 = (s0 + even + s1) % 2**32
        s1 = (s1 + odd + s0) % 2**32
    return s0, s1


word = st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(word, word), min_size=1, max_size=40), word, word)
def test_the_weighted_sum_is_the_checksum(pairs: list[tuple[int, int]], s0: int, s1: int) -> None:
    words = [each for pair in pairs for each in pair]
    sums = _checksums(np.array([words], np.uint32), np.array([[s0, s1]], np.uint32))
    assert tuple(sums[0].tolist()) == plain_checksum(words, s0, s1)


@cache
def log() -> bytes:
    """A real log: forty commits, some of several pages."""
    with tempfile.TemporaryDirectory(prefix="store-") as folder:
        path = Path(folder) / "s.db"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
        for number in range(40):
            connection.execute("INSERT INTO t VALUES (?, ?)", (number, bytes([number]) * (number * 300)))
        data = read_wal(path)
        connection.close()
        return data


def commits_behind(frame: int) -> int:
    heads = [struct.unpack_from(">6I", log(), at) for at in range(32, len(log()), STEP)]
    return sum(head[1] > 0 for head in heads[frame + 1 :])


def test_a_sound_log_is_sound_wherever_it_ends() -> None:
    assert not lost_commits(log())
    assert not lost_commits(b"")
    for size in range(0, len(log()), 1021):
        assert not lost_commits(log()[:size])
        assert not lost_commits(log()[:size] + bytes(3 * STEP))


@given(st.data())
@settings(max_examples=150)
def test_a_flipped_bit_is_found_unless_it_may_be_a_torn_end(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(log()) - 1))
    damaged = bytearray(log())
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    frame = -1 if at < 32 else (at - 32) // STEP
    inside = 0 if frame < 0 else (at - 32) % STEP
    found, behind = lost_commits(bytes(damaged)), commits_behind(frame)
    # Damage to a frame's checksum makes the next frame unreadable as well.
    hidden = 1 if 16 <= inside < 24 else 0
    if behind - hidden >= 2:
        assert found
    if behind < 2:
        assert not found
