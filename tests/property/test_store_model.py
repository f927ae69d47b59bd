"""Any sequence of writes, compactions and restarts: the store agrees with a list of changes, at every revision."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.store.backend import Change, Compacted, FutureRevision, Mismatch, Record
from podfit.store.disk.sqlite import SqliteStore
from podfit.store.memory import MemoryStore
from podfit.store.view import View

KEYS = ["a", "a/", "a/b", "a/b/c", "a0", "b", "é", "\U0010ffff", "\U0010ffffx"]
PREFIXES = ["", "a", "a/", "a/b", "b", "c", "\U0010ffff"]

key = st.sampled_from(KEYS)
operation = st.one_of(
    st.tuples(st.just("put"), key, st.binary(max_size=3), st.sampled_from([None, "right", "wrong", "new"])),
    st.tuples(st.just("delete"), key, st.just(b""), st.sampled_from([None, "right", "wrong"])),
    st.tuples(st.just("compact"), st.just(""), st.just(b""), st.floats(0, 1)),
    st.tuples(st.just("reopen"), st.just(""), st.just(b""), st.none()),
    st.tuples(st.just("burst"), key, st.binary(max_size=3), st.integers(1, 90)),
)
Operation = tuple[str, str, bytes, object]


@dataclass
class Model:
    """Every change so far."""

    changes: list[Change] = field(default_factory=list)

    def at(self, revision: int) -> dict[str, Record]:
        records: dict[str, Record] = {}
        for change in self.changes:
            if change.revision <= revision:
                if change.record is None:
                    del records[change.key]
                else:
                    records[change.key] = change.record
        return records

    def write(self, name: str, value: bytes | None) -> Change:
        revision = len(self.changes) + 2
        before = self.at(revision).get(name)
        after = None if value is None else Record(name, value, before.created if before else revision, revision)
        self.changes.append(Change(revision, name, after, before))
        return self.changes[-1]


def expectation(choice: object, current: Record | None) -> tuple[int | None, bool]:
    """The expected record of the key, and whether the store has it."""
    standing = current.modified if current else 0
    if choice is None:
        return None, True
    if choice == "new":
        return 0, standing == 0
    return (standing, True) if choice == "right" else (standing + 7, False)


async def write(store: MemoryStore | SqliteStore, model: Model, step: Operation) -> None:
    kind, name, value, choice = step
    current = model.at(store.revision).get(name)
    expect, holds = expectation(choice, current)
    holds = holds and (kind == "put" or current is not None)
    try:
        if kind == "put":
            record = await store.put(name, value, expect)
            assert holds and record == model.write(name, value).record
        else:
            change = await store.delete(name, expect)
            assert holds and change == model.write(name, None)
    except Mismatch as mismatch:
        assert not holds and mismatch.current == current


async def burst(store: MemoryStore | SqliteStore, model: Model, name: str, value: bytes, count: int) -> None:
    records = await asyncio.gather(*(store.put(name, value + bytes([number])) for number in range(count)))
    for record in sorted(records, key=lambda record: record.modified):
        assert record == model.write(name, record.value).record


def check(store: View, model: Model, share: float) -> None:
    """At the newest revision and at one in between, for all prefixes: lists, pages, counts and watch events."""
    assert store.revision == len(model.changes) + 1
    assert 1 <= store.compacted <= store.revision
    between = store.compacted + round(share * (store.revision - store.compacted))
    for prefix in PREFIXES:
        for revision in {between, store.revision}:
            rows = [record for name, record in sorted(model.at(revision).items()) if name.startswith(prefix)]
            assert store.scan_at(revision, prefix) == rows
            assert store.count_at(revision, prefix) == len(rows)
            assert store.count_at(revision, prefix, after="a/b") == len([r for r in rows if r.key > "a/b"])
            assert store.scan_at(revision, prefix, after="a/b", limit=2) == [r for r in rows if r.key > "a/b"][:2]
            watch = store.watch(prefix, revision)
            reported = [watch.next_nowait() for _ in range(len(model.changes) + 1)]
            expected = [c for c in model.changes if c.revision > revision and c.key.startswith(prefix)]
            assert [change for change in reported if change] == expected
            watch.close()
        now = [name for name in sorted(model.at(store.revision)) if name.startswith(prefix)]
        assert [record.key for record in store.scan(prefix)] == now
        assert store.count(prefix) == len(now)
        assert store.count(prefix, after="a/b") == len([name for name in now if name > "a/b"])
    with pytest.raises(FutureRevision):
        store.scan_at(store.revision + 1, "")
    with pytest.raises(Compacted):
        store.watch("", store.compacted - 1)


async def play(store: MemoryStore | SqliteStore, steps: list[Operation], share: float) -> None:
    model = Model()
    await store.open()
    witness = store.watch("", store.revision, buffer=100_000)
    witnessed: list[Change] = []
    for step in steps:
        kind, name, value, choice = step
        if kind in ("put", "delete"):
            await write(store, model, step)
        elif kind == "burst" and isinstance(choice, int):
            await burst(store, model, name, value, choice)
        elif kind == "compact" and isinstance(choice, float):
            boundary = 1 + round(choice * (store.revision - 1))
            await store.compact(boundary)
            assert store.compacted >= boundary
        elif kind == "reopen":
            seen = store.compacted
            while (change := witness.next_nowait()) is not None:
                witnessed.append(change)
            await store.close()
            await store.open()
            assert store.compacted >= seen
            witness = store.watch("", store.revision, buffer=100_000)
    while (change := witness.next_nowait()) is not None:
        witnessed.append(change)
    assert witnessed == model.changes
    check(store, model, share)
    await store.close()


steps = st.lists(operation, max_size=40)


@given(steps, st.floats(0, 1), st.sampled_from([0, 1, 20, 10_000]))
@settings(max_examples=120)
def test_memory_agrees_with_the_list_of_changes(steps: list[Operation], share: float, history: int) -> None:
    asyncio.run(play(MemoryStore(history=history), steps, share))


@given(steps, st.floats(0, 1), st.sampled_from([0, 1, 20, 10_000]))
@settings(max_examples=60)
def test_sqlite_agrees_with_the_list_of_changes(steps: list[Operation], share: float, history: int) -> None:
    with tempfile.TemporaryDirectory(prefix="store-") as folder:
        asyncio.run(play(SqliteStore(Path(folder) / "s.db", history=history), steps, share))


@given(steps, st.integers(1, 200))
@settings(max_examples=40)
def test_superseded_values_are_bounded_by_bytes(steps: list[Operation], limit: int) -> None:
    asyncio.run(play(MemoryStore(history_bytes=limit), steps, 0.5))
