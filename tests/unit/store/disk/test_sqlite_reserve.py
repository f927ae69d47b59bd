"""Disk space that is reserved before it is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.store.disk import sqlite_reserve
from podfit.store.disk.sqlite_reserve import Reserve


@pytest.fixture
def reserve(tmp_path: Path) -> Reserve:
    (tmp_path / "db").write_bytes(b"")
    made = Reserve(tmp_path / "db")
    made.open()
    return made


def test_writes_are_covered_until_the_margin_is_used_up(reserve: Reserve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_reserve, "preallocate", lambda *room: True)
    assert not reserve.counts(1), "nothing was taken yet"
    reserve.take(0, 0)
    assert reserve.counts(100)
    assert not reserve.counts(reserve.bytes)
    reserve.close()


def test_a_full_disk_is_an_error_and_what_there_is_is_taken(reserve: Reserve, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def small(descriptor: int, end: int, size: int) -> bool:
        if size > 1 << 20:
            raise OSError(28, "No space left on device")
        taken.append(size)
        return True

    monkeypatch.setattr(sqlite_reserve, "preallocate", small)
    reserve.log_bytes = 1 << 20
    with pytest.raises(OSError):
        reserve.take(0, 8 << 20)
    assert taken and not reserve.counts(1)
    reserve.close()


def test_a_file_system_that_holds_no_room_is_left_alone(reserve: Reserve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_reserve, "preallocate", lambda *room: False)
    reserve.take(0, 0)
    assert not reserve.is_lost()
    reserve.close()
