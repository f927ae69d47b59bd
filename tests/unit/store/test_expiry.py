"""Deadlines in virtual time."""

from __future__ import annotations

from podfit.kit.clock import FakeClock
from podfit.store.backend import Mismatch, Unavailable
from podfit.store.expiry import Expiry
from podfit.store.memory import MemoryStore


class Deletions:
    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.start = clock, clock.now()
        self.seen: list[tuple[str, int, float]] = []
        self.failures: list[Exception] = []

    async def __call__(self, key: str, revision: int) -> None:
        self.seen.append((key, revision, self.clock.now() - self.start))
        if self.failures:
            raise self.failures.pop()


async def test_keys_go_at_their_deadlines_nearest_first() -> None:
    clock = FakeClock()
    deletions = Deletions(clock)
    expiry = Expiry(clock, deletions)
    for key, after in (("late", 50.0), ("soon", 10.0), ("mid", 20.0)):
        expiry.set(key, clock.now() + after, 7)
    await clock.advance(0)
    await clock.advance(30)
    assert deletions.seen == [("soon", 7, 10.0), ("mid", 7, 20.0)]
    await clock.advance(30)
    assert deletions.seen[2:] == [("late", 7, 50.0)]
    await expiry.stop()


async def test_a_dropped_or_moved_deadline_does_not_fire() -> None:
    clock = FakeClock()
    deletions = Deletions(clock)
    expiry = Expiry(clock, deletions)
    expiry.set("dropped", clock.now() + 10, 1)
    expiry.set("moved", clock.now() + 10, 2)
    expiry.drop("dropped")
    expiry.set("moved", clock.now() + 40, 3)
    await clock.advance(0)
    await clock.advance(30)
    assert deletions.seen == []
    await clock.advance(30)
    assert deletions.seen == [("moved", 3, 40.0)]
    await expiry.stop()


async def test_a_far_deadline_is_met() -> None:
    clock = FakeClock()
    deletions = Deletions(clock)
    expiry = Expiry(clock, deletions)
    expiry.set("a", clock.now() + 3600, 1)
    await clock.advance(0)
    await clock.advance(3599)
    assert deletions.seen == []
    await clock.advance(1)
    assert deletions.seen == [("a", 1, 3600.0)]
    await expiry.stop()


async def test_a_deletion_that_cannot_be_written_is_retried_and_a_mismatch_is_not() -> None:
    clock = FakeClock()
    deletions = Deletions(clock)
    expiry = Expiry(clock, deletions)
    deletions.failures = [Mismatch(None), Unavailable("disk full")]
    expiry.set("a", clock.now() + 10, 1)
    await clock.advance(0)
    await clock.advance(100)
    assert deletions.seen == [("a", 1, 10.0), ("a", 1, 11.0)]
    await expiry.stop()


async def test_renewing_a_deadline_forever_takes_no_memory() -> None:
    clock = FakeClock()
    expiry = Expiry(clock, Deletions(clock))
    for turn in range(10_000):
        expiry.set("a", clock.now() + 3600 + turn, turn)
    assert len(expiry._heap) < 100
    await expiry.stop()


async def test_a_memory_store_lets_keys_vanish() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.open()
    await store.put("a", b"", ttl_s=5)
    await store.put("b", b"", ttl_s=5)
    kept = await store.put("b", b"again")
    await clock.advance(0)
    await clock.advance(6)
    assert store.scan("") == [kept]
    await store.close()


async def test_beyond_the_limit_the_keys_with_the_nearest_deadlines_go() -> None:
    clock = FakeClock()
    deletions = Deletions(clock)
    expiry = Expiry(clock, deletions, most=1000)
    for number in range(1001):
        expiry.set(str(number), clock.now() + 3600 + number, number)
    await clock.advance(0)
    gone = [int(key) for key, _, _ in deletions.seen]
    assert gone == list(range(len(gone))) and 1 <= len(gone) <= 500
    await expiry.stop()


async def test_a_store_keeps_a_limited_number_of_keys_that_expire() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    store._expiry._most = 1000
    await store.open()
    await store.put("stays", b"")
    for number in range(3000):
        await store.put(f"e/{number:05}", b"", ttl_s=3600)
        await clock.advance(0)
    assert store.count("e/") <= 1000 and store.get("e/02999") is not None and store.get("stays") is not None
    await store.close()
