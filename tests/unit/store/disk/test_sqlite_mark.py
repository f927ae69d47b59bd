"""The last acknowledged revision, stored in a file beside the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.store.disk.sqlite_mark import Mark


def reopened(path: Path) -> int:
    mark = Mark(path)
    try:
        return mark.open()
    finally:
        mark.close()


def test_a_mark_survives_and_the_last_one_counts(tmp_path: Path) -> None:
    mark = Mark(tmp_path / "mark")
    assert mark.open() == 0
    mark.write(7)
    mark.write(9)
    mark.close()
    assert reopened(tmp_path / "mark") == 9


@pytest.mark.parametrize("damage", [lambda data: data[:5], lambda data: b"x" + data[1:], lambda data: data[:-1] + b"x"])
def test_a_damaged_mark_claims_nothing(tmp_path: Path, damage: object) -> None:
    mark = Mark(tmp_path / "mark")
    mark.open()
    mark.write(7)
    mark.close()
    data = (tmp_path / "mark").read_bytes()
    (tmp_path / "mark").write_bytes(damage(data))  # type: ignore[operator]
    assert reopened(tmp_path / "mark") == 0


def test_a_closed_mark_is_not_written(tmp_path: Path) -> None:
    mark = Mark(tmp_path / "mark")
    mark.write(7)
    assert reopened(tmp_path / "mark") == 0
