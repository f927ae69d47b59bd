"""Stopping containers: one stop at a time, whatever requests arrive meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.agent.lab import Lab, pod

from podfit.agent.containers.stopper import LEAST_GRACE_S
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.kit.clock import FakeClock


class SlowRuntime(FakeRuntime):
    """Stops no container until permitted, and records the grace periods of the calls."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.graces: list[float] = []
        self.asked, self.allowed = asyncio.Event(), asyncio.Event()

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        self.graces.append(grace_s)
        self.asked.set()
        await self.allowed.wait()


async def test_a_stop_whose_grace_period_is_shortened_is_replaced_by_one_other(tmp_path: Path) -> None:
    runtime = SlowRuntime()
    lab = Lab(tmp_path, runtime)
    stopper, record, container = lab.parts.containers.stopper, lab.record(), pod()["spec"]["containers"][0]
    stopper.stop_container(record, container, "id", 30.0, "bye")
    await runtime.asked.wait()

    stopper.shorten(record)
    stopper.stop_container(record, container, "id", 5.0, "bye")
    await asyncio.sleep(0)
    stopper.stop_container(record, container, "id", 5.0, "bye")
    runtime.allowed.set()
    await record.jobs.wait("stop:c")
    await asyncio.sleep(0)

    assert (runtime.graces, lab.queue.enqueued, len(record.jobs)) == ([30.0, 5.0], ["u"], 0)
    await lab.stop()


async def test_a_container_gets_the_least_grace_period_even_if_none_is_requested(tmp_path: Path) -> None:
    runtime = SlowRuntime()
    lab = Lab(tmp_path, runtime)
    runtime.allowed.set()
    record = lab.record()
    lab.parts.containers.stopper.stop_container(record, record.pod["spec"]["containers"][0], "id", 0.0, "bye")
    await record.jobs.wait("stop:c")
    assert runtime.graces == [LEAST_GRACE_S]
    await lab.stop()
