"""The queue of passes: a requested pass is made, however late it was requested."""

from __future__ import annotations

import pytest

from podfit.agent.queue import PassQueue
from podfit.kit.clock import FakeClock
from podfit.reconcile.result import DONE, Requeue, Result


@pytest.mark.parametrize("after_s", [5.0, 0.0, -1.0])
async def test_a_pass_that_requests_another_gets_it_even_if_its_time_has_come_meanwhile(after_s: float) -> None:
    clock, passes = FakeClock(), list[str]()

    async def work(uid: str) -> Result:
        passes.append(uid)
        return Requeue(after_s, "a deadline") if len(passes) == 1 else DONE

    queue = PassQueue(clock)
    queue.start(work)
    queue.enqueue("p")
    await clock.advance(6.0)
    assert passes == ["p", "p"]
    await queue.stop()


async def test_a_pass_that_is_always_due_again_leaves_others_room() -> None:
    clock, passes = FakeClock(), list[str]()

    async def work(uid: str) -> Result:
        passes.append(uid)
        return Requeue(0.0, "always")

    queue = PassQueue(clock)
    queue.start(work)
    queue.enqueue("p")
    await clock.advance(1.0)
    assert 1 < len(passes) <= 102
    await queue.stop()


async def test_a_pod_enqueued_before_the_start_is_reconciled_at_the_start() -> None:
    clock, passes = FakeClock(), list[str]()

    async def work(uid: str) -> Result:
        passes.append(uid)
        return DONE

    queue = PassQueue(clock)
    queue.enqueue("a")
    queue.enqueue("b")
    queue.enqueue("a")
    queue.start(work)
    await queue.idle()
    assert passes == ["a", "b"]
    await queue.stop()


async def test_a_pod_enqueued_during_its_pass_gets_another_pass_unless_it_was_not_observed_yet() -> None:
    clock, passes = FakeClock(), list[str]()
    queue = PassQueue(clock)

    async def work(uid: str) -> Result:
        passes.append(uid)
        if len(passes) == 1:
            queue.enqueue(uid)
            queue.on_observe(uid)
        if len(passes) == 2:
            queue.on_observe(uid)
            queue.enqueue(uid)
        return DONE

    queue.start(work)
    queue.enqueue("p")
    await queue.idle()
    assert len(passes) == 1
    queue.enqueue("p")
    await queue.idle()
    assert len(passes) == 3
    await queue.stop()


async def test_a_pass_that_fails_is_repeated_with_a_backoff() -> None:
    clock, passes = FakeClock(), list[str]()

    async def work(uid: str) -> Result:
        passes.append(uid)
        if len(passes) < 3:
            raise OSError("no space")
        return DONE

    queue = PassQueue(clock)
    queue.start(work)
    queue.enqueue("p")
    await clock.advance(1.0)
    assert len(passes) == 3
    await queue.stop()
