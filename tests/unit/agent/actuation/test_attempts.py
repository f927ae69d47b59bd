"""When a failed actuation is tried again."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.actuation import attempts


async def test_the_pause_doubles_up_to_a_minute_and_begins_again_with_another_allocation(lab: Lab) -> None:
    record, first, second = lab.record(), object(), object()
    assert [attempts.failed(record, first, 5.0, 0.0) for _ in range(6)] == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    assert attempts.failed(record, second, 5.0, 0.0) == 5.0


async def test_only_the_allocation_that_failed_is_paused(lab: Lab) -> None:
    record, failed = lab.record(), object()
    attempts.failed(record, failed, 5.0, now=100.0)
    assert attempts.pause_s(record, failed, 102.0) == 3.0
    assert attempts.pause_s(record, object(), 102.0) == 0.0
    attempts.retry_now(record)
    assert attempts.pause_s(record, failed, 102.0) == 0.0


async def test_a_success_clears_the_mark_for_unverified_values(lab: Lab) -> None:
    record = lab.record()
    attempts.mark_unverified(record)
    attempts.failed(record, object(), 5.0, 0.0)
    attempts.succeeded(record)
    assert not record.unverified and record.failed is None
