"""Truncated and damaged write-ahead logs."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from podfit.store.disk.sqlite_wal import FRAME_HEAD, HEADER, USUAL_PAGE, lost_commits, read_wal

FRAME = FRAME_HEAD + USUAL_PAGE


@pytest.fixture
def wal(tmp_path: Path) -> bytes:
    """The log of several commits, as it is after a crash."""
    connection = sqlite3.connect(tmp_path / "live", isolation_level=None)
    connection.execute(f"PRAGMA page_size = {USUAL_PAGE}")
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("CREATE TABLE t (a)")
    for number in range(6):
        connection.execute("INSERT INTO t VALUES (?)", (number,))
    shutil.copy(tmp_path / "live-wal", tmp_path / "db-wal")
    connection.close()
    return read_wal(tmp_path / "db")


def damaged(wal: bytes, frame: int) -> bytes:
    at = HEADER.size + frame * FRAME + FRAME_HEAD + 100
    return wal[:at] + bytes([wal[at] ^ 0xFF]) + wal[at + 1 :]


def test_no_log_and_a_whole_log_lose_nothing(wal: bytes, tmp_path: Path) -> None:
    assert read_wal(tmp_path / "none") == b"" and not lost_commits(b"")
    assert len(wal) > 5 * FRAME and not lost_commits(wal)


def test_a_log_that_ends_early_is_a_write_that_was_cut_short(wal: bytes) -> None:
    assert not lost_commits(wal[: -FRAME // 2])
    assert not lost_commits(damaged(wal, (len(wal) - HEADER.size) // FRAME - 1))


def test_damage_before_commits_that_were_acknowledged_is_noticed(wal: bytes) -> None:
    assert lost_commits(damaged(wal, 1))


def test_a_damaged_header_is_noticed_by_the_commits_behind_it(wal: bytes) -> None:
    assert lost_commits(b"\0" * 4 + wal[4:])
