"""Compaction: one server does it, and every revision stays readable for one round."""

from __future__ import annotations

import asyncio

from podfit.kit.clock import FakeClock
from podfit.store.backend import Unavailable
from podfit.store.compact import Compactor
from podfit.store.memory import MemoryStore


async def test_a_round_forgets_what_was_old_one_round_before() -> None:
    store = MemoryStore()
    compactor = Compactor(store)
    await store.put("a", b"1")
    old = store.revision
    assert await compactor.turn()
    await store.put("a", b"2")
    assert store.compacted < old, "nothing is forgotten in the first round"
    assert await compactor.turn()
    assert store.compacted == old


async def test_of_two_servers_one_does_the_work() -> None:
    store = MemoryStore()
    one, two = Compactor(store), Compactor(store)
    assert [await one.turn(), await two.turn()] == [True, False]
    assert [await one.turn(), await two.turn()] == [True, False]


async def test_when_the_working_server_stops_the_other_takes_over() -> None:
    store = MemoryStore()
    one, two = Compactor(store), Compactor(store)
    await one.turn()
    assert [await two.turn(), await two.turn()] == [False, True]


async def test_a_store_that_fails_is_retried_in_the_next_round() -> None:
    clock, store = FakeClock(), MemoryStore()
    failing = [Unavailable("busy")]
    put = store.put

    async def write(*args: object, **more: object) -> object:
        if failing:
            raise failing.pop()
        return await put(*args, **more)  # type: ignore[arg-type]

    store.put = write  # type: ignore[method-assign,assignment]
    running = asyncio.ensure_future(Compactor(store, 10.0, clock).run())
    await clock.advance(10.0)
    assert store.get(".compaction") is None
    await clock.advance(10.0)
    assert store.get(".compaction") is not None
    running.cancel()
