"""Group commit: which writes wait together, which state they are checked against, and when they are acknowledged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from podfit.kit.concurrency.inline_calls import InlineCalls
from podfit.store.backend import Mismatch, Record, Unavailable
from podfit.store.disk.sqlite import SqliteStore
from podfit.store.disk.sqlite_file import Row, SqliteFile


class SlowDisk(InlineCalls):
    """Every group goes to the thread."""

    def in_place(self) -> bool:
        return False


class Gate:
    """Intercepts the writer thread's transactions: counts them, delays them, or fails them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.error: Exception | None = None
        self.before: Callable[[], object] = lambda: None
        append = SqliteFile.append

        def gated(file: SqliteFile, rows: list[Row], garbage: list[int], compacted: int) -> None:
            self.open.wait(10)
            self.before()
            if self.error is not None:
                raise self.error
            self.groups.append(len(rows))
            append(file, rows, garbage, compacted)

        monkeypatch.setattr(SqliteFile, "append", gated)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture
async def store(tmp_path: Path, gate: Gate) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "s.db", inline=SlowDisk())
    await made.open()
    yield made
    gate.open.set()
    await made.close()


async def test_writes_that_wait_go_together(store: SqliteStore, gate: Gate) -> None:
    gate.open.clear()
    first = asyncio.ensure_future(store.put("first", b""))
    while store._in_flight is False:
        await asyncio.sleep(0)
    rest = [asyncio.ensure_future(store.put(f"k{number}", b"")) for number in range(100)]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(first, *rest)
    assert gate.groups == [1, 100]


async def test_nothing_shows_before_the_disk_has_it(store: SqliteStore, gate: Gate) -> None:
    gate.open.clear()
    watch, revision = store.watch("", store.revision), store.revision
    winner = asyncio.ensure_future(store.put("a", b"1", expect=0))
    loser = asyncio.ensure_future(store.put("a", b"2", expect=0))
    while store._in_flight is False:
        await asyncio.sleep(0)
    assert not winner.done() and not loser.done(), "the loser's answer would tell of a write that may yet fail"
    assert store.get("a") is None and store.revision == revision and watch.next_nowait() is None
    gate.open.set()
    record = await winner
    with pytest.raises(Mismatch) as refusal:
        await loser
    assert refusal.value.current == record == store.get("a")


async def test_a_failed_group_is_refused_whole_and_its_revisions_are_used_again(store: SqliteStore, gate: Gate) -> None:
    before = await store.put("a", b"0")
    gate.error = OSError("the disk is on fire")
    outcomes = await asyncio.gather(
        store.put("a", b"1"), store.put("b", b"1"), store.put("a", b"2", expect=99), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
    assert "on fire" in str(outcomes[0])
    assert store.get("a") == before and store.get("b") is None
    gate.error = None
    assert await store.put("b", b"2") == Record("b", b"2", before.modified + 1, before.modified + 1)


async def test_a_write_cancelled_while_it_waits_is_not_made(store: SqliteStore, gate: Gate) -> None:
    gate.open.clear()
    first = asyncio.ensure_future(store.put("first", b""))
    while store._in_flight is False:
        await asyncio.sleep(0)
    doomed = asyncio.ensure_future(store.put("doomed", b""))
    await asyncio.sleep(0)
    doomed.cancel()
    gate.open.set()
    await first
    await store.put("last", b"")
    assert store.get("doomed") is None


async def test_closing_waits_for_writes_under_way(tmp_path: Path, gate: Gate) -> None:
    store = SqliteStore(tmp_path / "other.db", inline=SlowDisk())
    await store.open()
    gate.open.clear()
    writes = [asyncio.ensure_future(store.put(f"k{number}", b"")) for number in range(5)]
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    gate.open.set()
    await closing
    assert [(await write).value for write in writes] == [b""] * 5
    await store.open()
    assert store.count("k") == 5
    await store.close()


async def test_a_key_that_is_not_text_fails_alone(store: SqliteStore) -> None:
    outcomes = await asyncio.gather(store.put("\ud800", b""), store.put("good", b""), return_exceptions=True)
    assert isinstance(outcomes[0], UnicodeEncodeError) and isinstance(outcomes[1], Record)


async def test_a_quick_disk_is_written_without_the_thread(tmp_path: Path, gate: Gate) -> None:
    store = SqliteStore(tmp_path / "quick.db", inline=InlineCalls(limit_s=60))
    await store.open()
    writers: list[str] = []
    gate.before = lambda: writers.append(threading.current_thread().name)
    await asyncio.gather(*(store.put(f"k{number}", b"") for number in range(20)))
    await store.close()
    assert gate.groups == [20] and writers == [threading.main_thread().name]


@pytest.mark.parametrize("inline", [InlineCalls(limit_s=60), SlowDisk()], ids=["in place", "thread"])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200, 1100])
async def test_groups_of_any_size_are_kept_whole(tmp_path: Path, count: int, inline: InlineCalls) -> None:
    store = SqliteStore(tmp_path / "sized.db", inline=inline)
    await store.open()
    await asyncio.gather(*(store.put(f"k{number}", str(number).encode()) for number in range(count)))
    records = store.scan("")
    await store.close()
    await store.open()
    assert store.scan("") == records and len(records) == count
    await store.close()
