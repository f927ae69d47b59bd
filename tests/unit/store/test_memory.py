"""A store in memory: revisions, conflicts, expiring keys, and no writes after close."""

from __future__ import annotations

import pytest

from podfit.kit.clock import FakeClock
from podfit.store.backend import Mismatch, Unavailable
from podfit.store.memory import MemoryStore


async def test_each_write_has_the_next_revision_and_deletes_have_one_too() -> None:
    store = MemoryStore()
    first = await store.put("a", b"1")
    second = await store.put("a", b"2", expect=first.modified)
    deleted = await store.delete("a")
    assert [first.modified, second.modified, deleted.revision] == [2, 3, 4]
    assert second.created == 2 and store.get("a") is None


async def test_a_write_that_expects_another_revision_changes_nothing() -> None:
    store = MemoryStore()
    await store.put("a", b"1")
    with pytest.raises(Mismatch) as raised:
        await store.put("a", b"2", expect=0)
    assert raised.value.current is not None and store.revision == 2
    with pytest.raises(Mismatch):
        await store.delete("b")


async def test_a_key_with_a_lifetime_goes_when_it_has_ended_unless_it_was_written_again() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.open()
    await store.put("short", b"", ttl_s=10)
    await store.put("kept", b"", ttl_s=10)
    await store.put("kept", b"again")
    await clock.advance(11)
    assert store.get("short") is None and store.get("kept") is not None
    await store.close()


async def test_a_closed_store_takes_no_writes() -> None:
    store = MemoryStore()
    await store.open()
    await store.close()
    with pytest.raises(Unavailable):
        await store.put("a", b"")
