"""The contents of a store: records in key order, past revisions, and bounded history."""

from __future__ import annotations

import asyncio

import pytest

from podfit.store.backend import Compacted, FutureRevision
from podfit.store.memory import MemoryStore
from podfit.store.view import STEP, View, behind


async def filled(*keys: str) -> MemoryStore:
    store = MemoryStore()
    for key in keys:
        await store.put(key, key.encode())
    return store


def keys(records: object) -> list[str]:
    return [record.key for record in records]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("prefix", "end"), [("a/", "a0"), ("", None), ("\U0010ffff", None), ("a\U0010ffff", "b")])
def test_the_string_behind_a_prefix(prefix: str, end: str | None) -> None:
    assert behind(prefix) == end


async def test_a_scan_is_in_key_order_within_its_prefix() -> None:
    store = await filled("b/1", "a/2", "a/1", "a", "c")
    assert keys(store.scan("a/")) == ["a/1", "a/2"] and store.count("a/") == 2
    assert keys(store.scan("", after="a/1", limit=2)) == ["a/2", "b/1"]


async def test_the_past_is_as_it_was() -> None:
    store = await filled("a/1", "a/2")
    then = store.revision
    await store.delete("a/1")
    await store.put("a/3", b"")
    assert keys(store.scan_at(then, "a/")) == ["a/1", "a/2"] and store.count_at(then, "a/") == 2
    assert keys(store.scan("a/")) == ["a/2", "a/3"]


async def test_forgotten_history_and_the_future_cannot_be_read() -> None:
    store = await filled("a", "b", "c")
    await store.compact(3)
    assert keys(store.scan_at(3, "")) == ["a", "b"]
    with pytest.raises(Compacted):
        store.scan_at(2, "")
    with pytest.raises(FutureRevision):
        store.scan_at(5, "")
    with pytest.raises(FutureRevision):
        await store.compact(99)


async def test_history_is_bounded_by_number_and_by_bytes() -> None:
    store = MemoryStore(history=10)
    for number in range(10 + STEP):
        await store.put(f"k{number}", b"")
    assert store.compacted == store.revision - 10
    small = MemoryStore(history_bytes=100)
    for _ in range(4):
        await small.put("a", b"x" * 60)
    assert small.compacted > 1


async def test_a_wait_for_a_revision_ends_with_it_or_with_the_store() -> None:
    view = View()
    reached = asyncio.ensure_future(view.wait_for(5, 60.0))
    never = asyncio.ensure_future(view.wait_for(9, 60.0))
    await asyncio.sleep(0)
    view.advance(5)
    assert await reached
    view.end()
    assert not await never
    assert not await view.wait_for(7, 0.0)


async def test_a_folder_is_touched_by_writes_directly_below_it() -> None:
    store = await filled("a/1", "b/1")
    assert (store.touched("a/"), store.touched("b/")) == (2, 3)
    await store.put("a/2", b"")
    assert store.touched("a/") == 4
