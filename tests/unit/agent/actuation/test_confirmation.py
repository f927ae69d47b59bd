"""Resizes that are in the kernel but not yet confirmed by the runtime."""

from __future__ import annotations

import asyncio

from tests.unit.agent.lab import Lab

from podfit.agent.actuation import confirmation
from podfit.agent.actuation.confirmation import GRACE_S
from podfit.agent.runtimes.values import LimitsChange


async def waiting(answered: asyncio.Event) -> None:
    await answered.wait()


async def test_an_unconfirmed_resize_is_outstanding_and_not_reported_at_first(lab: Lab) -> None:
    record = await lab.run()
    answered = asyncio.Event()
    answer = asyncio.ensure_future(waiting(answered))
    lab.runtime.confirmations.begin("u", answer, lambda: None)
    assert lab.parts.resizing.confirmation.outstanding(record)
    assert confirmation.grace_left_s(record, lab.clock.monotonic()) == GRACE_S
    answered.set()
    await lab.runtime.confirmations.wait("u")
    await asyncio.sleep(0)
    assert not lab.parts.resizing.confirmation.outstanding(record)
    assert confirmation.grace_left_s(record, lab.clock.monotonic()) == 0.0


async def test_a_refused_resize_is_restored_and_marked_unverified(lab: Lab) -> None:
    record = await lab.run()
    pod = await lab.observed(record)
    before, container = lab.ledger.actuated("u"), pod.snapshot.running["c"]
    confirmation.awaited(record, before)
    lab.ledger.actuate("u", "c", {"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"cpu": "2", "memory": "64Mi"}})
    await lab.runtime.update_container(container.id, LimitsChange(cpu_shares=102, cpu_quota_us=10_000))
    lab.runtime.confirmations.refuse("u")
    snapshot = await lab.parts.resizing.confirmation.observe(record)
    assert snapshot.actuated.containers == before.containers
    assert record.unverified and record.before_resize is None
