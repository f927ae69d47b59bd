"""The work queue: no key is lost, and none is processed twice at a time."""

import asyncio

from podfit.kit.clock import FakeClock
from podfit.reconcile import Queue


async def test_a_key_waits_once_however_often_it_is_added() -> None:
    queue: Queue[str] = Queue()
    for _ in range(3):
        queue.add("a")
    assert await queue.get() == "a" and len(queue) == 0


async def test_a_key_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue: Queue[str] = Queue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"


async def test_a_later_key_comes_when_its_time_has_come() -> None:
    clock = FakeClock()
    queue: Queue[str] = Queue(clock)
    queue.add_after("a", 5)
    await clock.advance(4.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert len(queue) == 1


async def test_the_earlier_of_two_times_counts() -> None:
    clock = FakeClock()
    queue: Queue[str] = Queue(clock)
    queue.add_after("a", 50)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    await clock.advance(6)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(100)
    assert len(queue) == 0


async def test_a_waiting_worker_gets_the_key_at_once() -> None:
    queue: Queue[str] = Queue()
    worker = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await asyncio.wait_for(worker, 1) == "a"


async def test_a_cancelled_worker_does_not_swallow_a_key() -> None:
    queue: Queue[str] = Queue()
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"
