"""Waiting for memory to fall below a limit that could not be set."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.actuation import attempts
from podfit.agent.decide.resize.actuate import MemoryCheck


async def test_usage_that_falls_below_the_limit_brings_a_pass_without_a_pause(lab: Lab) -> None:
    record = await lab.run()
    pod, waits = await lab.observed(record), lab.parts.resizing.memory_waits
    lab.runtime.set_load("u", "c", memory=40 << 20)
    attempts.failed(record, pod.snapshot.allocated, 5.0, lab.clock.monotonic())
    waits.watch(record, pod.snapshot, (MemoryCheck("c", 32 << 20),))
    lab.queue.enqueued.clear()
    await lab.clock.advance(0.0)
    assert lab.queue.enqueued == [] and record.memory_wait is not None
    lab.runtime.set_load("u", "c", memory=8 << 20)
    await lab.clock.advance(1.0)
    assert lab.queue.enqueued == ["u"] and record.memory_wait is None
    assert attempts.pause_s(record, pod.snapshot.allocated, lab.clock.monotonic()) == 0.0


async def test_a_wait_that_is_forgotten_brings_no_pass(lab: Lab) -> None:
    record = await lab.run()
    pod, waits = await lab.observed(record), lab.parts.resizing.memory_waits
    lab.runtime.set_load("u", "c", memory=40 << 20)
    waits.watch(record, pod.snapshot, (MemoryCheck("c", 32 << 20),))
    await lab.clock.advance(0.0)
    lab.queue.enqueued.clear()
    waits.forget(record)
    lab.runtime.set_load("u", "c", memory=8 << 20)
    await lab.clock.advance(1.0)
    assert lab.queue.enqueued == [] and record.memory_wait is None
