"""One worker a pod: what a pass asks for comes, however late it asked."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.closing import Closing
from podfit.agent.record import PodRecord
from podfit.agent.story import Story
from podfit.agent.workers import Workers
from podfit.kit.clock import FakeClock, rfc3339
from podfit.reconcile.result import DONE, Again, Result


@pytest.mark.parametrize("after_s", [5.0, 0.0, -1.0])
async def test_a_pass_that_asks_for_another_gets_it_even_if_its_time_has_come_meanwhile(after_s: float) -> None:
    clock, passes = FakeClock(), list[str]()

    async def work(uid: str) -> Result:
        passes.append(uid)
        return Again(after_s, "a deadline") if len(passes) == 1 else DONE

    workers = Workers(work, clock)
    workers.kick("p")
    await clock.advance(6.0)
    assert passes == ["p", "p"]
    await workers.stop()


async def test_a_pass_that_is_always_due_again_leaves_others_room() -> None:
    clock, passes = FakeClock(), list[str]()

    async def work(uid: str) -> Result:
        passes.append(uid)
        return Again(0.0, "always")

    workers = Workers(work, clock)
    workers.kick("p")
    await clock.advance(1.0)
    assert 1 < len(passes) <= 102
    await workers.stop()


def test_a_deadline_that_passes_during_a_pass_is_looked_at_again() -> None:
    clock: Any = FakeClock(1000.0)
    nobody: Any = None
    closing = Closing(nobody, nobody, nobody, nobody, nobody, nobody, nobody, nobody, nobody, clock)
    record = PodRecord("u", {"metadata": {"name": "p"}, "spec": {"containers": []}}, Story(clock))
    record.start_time = rfc3339(990.0)
    assert closing.deadline(record) == []
    for seconds, left in [(15, 5.0), (10, 0.0), (3, 0.0)]:
        record.pod["spec"]["activeDeadlineSeconds"] = seconds
        assert closing.deadline(record) == [left]
