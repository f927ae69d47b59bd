"""activeDeadlineSeconds: when it is due, and that it terminates the pod."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.phases.deadline import deadline_s, enforce_deadline
from podfit.kit.clock import rfc3339


async def test_a_deadline_that_passes_during_a_pass_is_due_at_once(lab: Lab) -> None:
    record = lab.record()
    record.start_time = rfc3339(lab.clock.now() - 10.0)
    assert deadline_s(lab.context(record)) is None
    for seconds, left in [(15, 5.0), (10, 0.0), (3, 0.0)]:
        record.pod["spec"]["activeDeadlineSeconds"] = seconds
        assert deadline_s(lab.context(record)) == left


async def test_a_pod_past_its_deadline_is_terminated_once_with_an_event(lab: Lab) -> None:
    record = lab.record()
    record.start_time = rfc3339(lab.clock.now() - 10.0)
    record.pod["spec"]["activeDeadlineSeconds"] = 5
    await enforce_deadline(lab.context(record))
    await enforce_deadline(lab.context(record))
    assert record.termination is not None and record.termination.reason == "DeadlineExceeded"
    assert lab.events.reasons == ["DeadlineExceeded"]
