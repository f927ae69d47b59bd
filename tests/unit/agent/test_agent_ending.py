"""Stopping containers: one stop at a time, whatever comes in between."""

from __future__ import annotations

import asyncio
from typing import Any

from podfit.agent.life.ending import Stopper
from podfit.agent.life.hooks import Hooks
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.fake import FakeRuntime
from podfit.agent.story import Story
from podfit.kit.clock import FakeClock
from podfit.kit.tasks import Tasks


class SlowRuntime(FakeRuntime):
    """Stops nothing until it is told to, and remembers the graces it was given."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.graces: list[float] = []
        self.asked, self.let = asyncio.Event(), asyncio.Event()

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        self.graces.append(grace_s)
        self.asked.set()
        await self.let.wait()


class Silent:
    def say(self, *_: Any) -> None:
        return


async def test_a_stop_that_is_hurried_on_is_replaced_by_one_other() -> None:
    clock, tasks = FakeClock(), Tasks()
    runtime = SlowRuntime(clock)
    kicked: list[str] = []
    stopper = Stopper(runtime, Silent(), Hooks(runtime, clock), clock, tasks, kicked.append)  # type: ignore[arg-type]
    container = {"name": "c"}
    pod = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container]}}
    record = PodRecord("u", pod, Story(clock))
    stopper.stop_one(record, container, "id", 30.0, "bye")
    await runtime.asked.wait()
    (first,) = record.jobs.values()

    stopper.hurry(record)
    stopper.stop_one(record, container, "id", 5.0, "bye")
    await asyncio.wait({first})
    stopper.stop_one(record, container, "id", 5.0, "bye")
    (second,) = record.jobs.values()
    runtime.let.set()
    await asyncio.wait({second})

    assert (runtime.graces, kicked, record.jobs) == ([30.0, 5.0], ["u"], {})
