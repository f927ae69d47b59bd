"""What the SQLite store acknowledged survives kill -9, and a file it cannot trust is refused, not emptied."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import podfit
from podfit.kit.clock import FakeClock
from podfit.store.backend import Change, Mismatch, StoreError, Unavailable, Unusable
from podfit.store.disk.sqlite import SqliteStore
from podfit.store.disk.sqlite_file import SqliteFile

SOURCE = str(Path(podfit.__file__).parent.parent)

# Eight writers; each prints what was acknowledged. Keys are overwritten and deleted, and history is short, so that
# trimming and checkpoints coincide with the kill as well.
WRITER = """
import asyncio, os, sys
from podfit.store.disk.sqlite import SqliteStore

async def main(path, turn):
    store = SqliteStore(path, history=50)
    await store.open()
    async def write(task):
        number = 0
        while True:
            key = f"k/{task}/{number % 7}"
            if number % 11 == 10 and store.get(key):
                change = await store.delete(key)
                os.write(1, f"{key} {change.revision} -\\n".encode())
            else:
                text = f"{turn}.{number}"
                record = await store.put(key, text.encode() + bytes(2000))
                os.write(1, f"{key} {record.modified} {text}\\n".encode())
            number += 1
    await asyncio.gather(*(write(task) for task in range(8)))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def start_writer(path: Path, turn: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(turn)], stdout=subprocess.PIPE, env=environment
    )


def run_and_kill(path: Path, turn: int, lines: int) -> list[tuple[str, int, str]]:
    """Lets the writer acknowledge some `lines`, kills it, and returns all it acknowledged."""
    with start_writer(path, turn) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    rows = [line.decode().split() for line in said if line.endswith(b"\n")]
    assert len(rows) >= lines
    return [(key, int(revision), text) for key, revision, text in rows]


async def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    path, newest = tmp_path / "s.db", dict[str, tuple[int, str]]()
    for turn, lines in enumerate((1, 40, 333, 900, 2500)):
        for key, revision, text in await asyncio.to_thread(run_and_kill, path, turn, lines):
            newest[key] = max(newest.get(key, (0, "")), (revision, text))
        store = SqliteStore(path, history=50)
        await store.open()
        assert store.revision >= max(revision for revision, _ in newest.values())
        for key, (revision, text) in newest.items():
            record = store.get(key)
            if record is not None and record.modified == revision:
                assert record.value.rstrip(b"\0").decode() == text
            elif record is None and text == "-":
                continue
            else:  # a later write of the same writer was durable, but the kill came before it was printed
                assert any(change.key == key and change.revision > revision for change in all_changes(store))
        await store.close()


def all_changes(store: SqliteStore) -> Iterator[Change]:
    watch = store.watch("", store.compacted)
    while (change := watch.next_nowait()) is not None:
        yield change
    watch.close()


async def test_each_commit_waits_for_the_disk(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "s.db")
    file.open()
    assert file.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert file.connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: kill -9 alone cannot show it
    file.close()


async def test_watchers_can_resume_across_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run_and_kill(path, 0, 300)
    store = SqliteStore(path, history=50)
    await store.open()
    revisions = [change.revision for change in all_changes(store)]
    assert len(revisions) >= 50
    assert revisions == list(range(store.compacted + 1, store.revision + 1))
    assert (await store.put("next", b"")).modified == revisions[-1] + 1
    await store.close()


def crashed(path: Path, lines: int = 400) -> Path:
    """A store after a crash: the file and a write-ahead log full of acknowledged commits."""
    run_and_kill(path, 0, lines)
    assert wal_of(path).stat().st_size > 100_000
    return path


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


async def refusal(path: Path) -> str:
    store = SqliteStore(path)
    with pytest.raises(Unusable) as refused:
        await store.open()
    with pytest.raises(StoreError):
        await store.put("a", b"")
    return str(refused.value)


@pytest.mark.parametrize("place", ["header", "frame head", "page"])
async def test_a_broken_log_in_front_of_acknowledged_commits_is_refused(tmp_path: Path, place: str) -> None:
    path = crashed(tmp_path / "s.db")
    flip(wal_of(path), {"header": 9, "frame head": 32 + 4120 * 9 + 10, "page": 32 + 4120 * 9 + 600}[place])
    damaged = wal_of(path).read_bytes()
    message = await refusal(path)
    assert "damaged" in message and "Restore" in message and str(path) in message
    assert wal_of(path).read_bytes() == damaged, "evidence must stay for whoever repairs it"


async def test_a_log_that_ends_in_half_a_write_opens_with_what_was_whole(tmp_path: Path) -> None:
    path = crashed(tmp_path / "s.db")
    with wal_of(path).open("ab") as log:
        log.write(bytes(1000))
    store = SqliteStore(path)
    await store.open()
    assert store.count("k/") > 0
    await store.close()


@pytest.mark.parametrize("missing", ["a piece", "most", "the file"])
async def test_a_log_without_its_acknowledged_end_is_refused(tmp_path: Path, missing: str) -> None:
    path = crashed(tmp_path / "s.db")
    size = wal_of(path).stat().st_size
    if missing == "the file":
        wal_of(path).unlink()
    else:
        # The last commits before a kill may be unacknowledged: more are cut off here than can be.
        os.truncate(wal_of(path), size * 3 // 4 if missing == "a piece" else size // 4)
    message = await refusal(path)
    assert "were acknowledged" in message and "Restore" in message and "s.db.mark" in message


async def test_a_shortened_store_opens_when_its_mark_is_removed(tmp_path: Path) -> None:
    path = crashed(tmp_path / "s.db")
    os.truncate(wal_of(path), wal_of(path).stat().st_size // 4)
    path.with_name("s.db.mark").unlink()
    store = SqliteStore(path)
    await store.open()
    assert store.count("k/") > 0
    await store.close()


@pytest.mark.parametrize("mark", [b"", b"podfit01", bytes(20), b"x" * 20])
async def test_an_unreadable_mark_is_replaced(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    path.with_name("s.db.mark").write_bytes(mark)
    store = SqliteStore(path)
    await store.open()
    await store.close()
    assert path.with_name("s.db.mark").read_bytes().startswith(b"podfit01")


async def test_a_store_that_vanished_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    path.unlink()
    assert "is missing" in await refusal(path) and not path.exists()
    path.with_name("s.db.mark").unlink()
    await filled(path)


async def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    os.truncate(path, 0)
    assert "the file is empty" in await refusal(path)
    assert path.stat().st_size == 0


async def test_a_start_that_ended_before_the_file_was_whole_is_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.with_name("s.db.new").write_bytes(b"half")
    await filled(path)
    assert not path.with_name("s.db.new").exists()


async def filled(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await asyncio.gather(*(store.put(f"k/{number}", f"value-{number}|".encode() * 200) for number in range(100)))
    await store.close()


async def test_a_flipped_bit_in_a_value_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    flip(path, path.read_bytes().index(b"value-50|value-50|"))
    assert "damaged" in await refusal(path)


async def test_a_missing_entry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM log WHERE revision = 50")
        connection.commit()
    assert "missing" in await refusal(path)


@pytest.mark.parametrize("damage", ["garbage", "cut", "zeroed page"])
async def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    data = path.read_bytes()
    if damage == "garbage":
        path.write_bytes(b"this is no database, it is a poem " * 500)
    elif damage == "cut":
        os.truncate(path, 4096 * 5)
    else:
        path.write_bytes(data[: 4096 * 8] + bytes(4096 * 20) + data[4096 * 28 :])
    before = path.read_bytes()
    message = await refusal(path)
    assert "damaged" in message
    assert path.read_bytes()[100:] == before[100:]  # SQLite counts its visits in the first hundred bytes


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    with path.open("r+b") as file:
        file.seek(60)
        file.write(struct.pack(">I", 99))
    assert "format 99" in await refusal(path)


async def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
        connection.commit()
    assert "another program" in await refusal(path)


async def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    assert "No such file or directory" in await refusal(tmp_path / "nowhere" / "s.db")


async def test_a_store_in_use_by_another_process_is_refused_and_free_after_its_death(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with start_writer(path, 0) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert "in use by another process" in await refusal(path)
        process.kill()
        process.stdout.read()
    store = SqliteStore(path)
    await store.open()
    assert store.count("k/") > 0
    await store.close()


async def test_a_store_open_twice_in_one_process_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    await store.open()
    assert "in use" in await refusal(tmp_path / "s.db")
    await store.put("a", b"still works")
    await store.close()


@contextlib.contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_refuses_writes_and_later_ones_work_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    await store.open()
    kept = await store.put("a", b"1")
    with files_no_larger_than(150_000):
        outcomes = await asyncio.gather(
            *(store.put(f"big/{number}", bytes(20_000)) for number in range(20)), return_exceptions=True
        )
        assert any(isinstance(outcome, Unavailable) for outcome in outcomes)
        with pytest.raises(Unavailable):
            await store.put("huge", bytes(400_000))
        assert store.get("huge") is None and store.get("a") == kept
    later = await store.put("a", b"2", expect=kept.modified)
    with pytest.raises(Mismatch):
        await store.put("a", b"3", expect=kept.modified)
    records = store.scan("")
    await store.close()
    await store.open()
    assert store.scan("") == records and store.get("a") == later
    await store.close()


async def test_a_time_to_live_continues_across_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(tmp_path / "s.db", clock=clock)
    await store.open()
    await store.put("e/over", b"", ttl_s=60)
    await store.put("e/later", b"", ttl_s=3600)
    kept = await store.put("e/kept", b"", ttl_s=60)
    kept = await store.put("e/kept", b"2", expect=kept.modified)
    await store.close()
    await clock.advance(100)
    await store.open()
    watch = store.watch("e/", store.revision)
    await clock.advance(0)
    async with asyncio.timeout(10):
        gone = await watch.next()
    assert (gone.key, gone.record) == ("e/over", None)
    assert [record.key for record in store.scan("e/")] == ["e/kept", "e/later"]
    for _ in range(60):  # the alarm checks at least once a minute
        await clock.advance(60)
    async with asyncio.timeout(10):
        assert (await watch.next()).key == "e/later"
    assert store.scan("e/") == [kept]
    await store.close()


async def test_renewing_leases_does_not_grow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, history=200)
    await store.open()
    sizes = []
    for _ in range(4):
        for _ in range(30):
            await asyncio.gather(*(store.put(f"leases/{node}", bytes(400)) for node in range(50)))
        sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
    assert sizes[-1] <= sizes[1] * 1.1
    await store.close()
    assert path.stat().st_size < 1_000_000


async def test_compaction_gives_room_back_after_many_deletions(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    await store.open()
    await asyncio.gather(*(store.put(f"k/{number}", bytes(3000)) for number in range(3000)))
    await asyncio.gather(*(store.delete(f"k/{number}") for number in range(3000)))
    await store.compact(store.revision)
    revision = store.revision
    await store.close()
    assert path.stat().st_size < 3_000_000
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)
    await store.open()
    assert (store.revision, store.compacted, store.count("")) == (revision, revision, 0)
    await store.close()


async def test_a_copy_taken_after_a_crash_opens_elsewhere(tmp_path: Path) -> None:
    path = crashed(tmp_path / "s.db")
    for name in ("s.db", "s.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / f"copy-{name}")
    original, copy = SqliteStore(path), SqliteStore(tmp_path / "copy-s.db")
    await original.open()
    await copy.open()
    assert copy.scan("") == original.scan("")
    await original.close()
    await copy.close()
