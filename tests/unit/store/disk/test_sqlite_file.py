"""The file of a store: rows survive, damaged and foreign files are rejected."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from podfit.store.backend import Unusable
from podfit.store.disk.sqlite_file import Row, SqliteFile, is_full


def row(revision: int, key: str = "a", value: bytes | None = b"v") -> Row:
    return Row(revision, key, revision, value, 0.0)


def written(path: Path, *rows: Row) -> None:
    file = SqliteFile(path)
    file.open()
    file.append(list(rows), [], 1)
    file.close()


def refusal(path: Path) -> str:
    with pytest.raises(Unusable) as raised:
        SqliteFile(path).open()
    return str(raised.value)


def test_rows_survive_and_garbage_does_not(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "db")
    assert file.open() == (1, [])
    file.append([row(2), row(3, "b", None)], [], 1)
    file.append([row(4)], [2, 3], 3)
    file.close()
    assert SqliteFile(tmp_path / "db").open() == (3, [row(4)])


def test_a_store_in_use_is_not_opened_twice(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "db")
    file.open()
    assert "in use by another process" in refusal(tmp_path / "db")
    file.close()


def test_a_changed_value_is_damage(tmp_path: Path) -> None:
    written(tmp_path / "db", row(2), row(3))
    with sqlite3.connect(tmp_path / "db") as connection:
        connection.execute("UPDATE log SET value = x'00' WHERE revision = 3")
    connection.close()
    assert "the entry of revision 3 is damaged" in refusal(tmp_path / "db")


def test_a_missing_revision_is_damage(tmp_path: Path) -> None:
    written(tmp_path / "db", row(2), row(3), row(4))
    with sqlite3.connect(tmp_path / "db") as connection:
        connection.execute("DELETE FROM log WHERE revision = 3")
    connection.close()
    assert "entries between revisions 1 and 4 are missing" in refusal(tmp_path / "db")


def test_an_acknowledged_write_that_is_gone_is_noticed(tmp_path: Path) -> None:
    written(tmp_path / "db", row(2), row(3))
    with sqlite3.connect(tmp_path / "db") as connection:
        connection.execute("DELETE FROM log WHERE revision = 3")
    connection.close()
    assert "ends at revision 2, but writes up to revision 3 were acknowledged" in refusal(tmp_path / "db")
    (tmp_path / "db").unlink()
    assert "is missing, but writes up to revision 3" in refusal(tmp_path / "db")


def test_another_programs_database_is_not_changed(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    assert "a database of another program" in refusal(tmp_path / "db")
    (tmp_path / "text").write_text("no database" * 100)
    assert "is damaged" in refusal(tmp_path / "text")
    (tmp_path / "empty").touch()
    assert "the file is empty" in refusal(tmp_path / "empty")


def test_only_a_full_disk_is_full() -> None:
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert is_full(error)
    assert not is_full(sqlite3.OperationalError("y")) and not is_full(None)
