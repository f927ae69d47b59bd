"""The reason for a pod's termination, and its grace period."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.pods import termination
from podfit.agent.pods.termination import Termination


async def test_a_grace_period_becomes_shorter_and_never_longer(lab: Lab) -> None:
    record = lab.record()
    for seconds, grace in [(30, 30.0), (60, 30.0), (5, 5.0)]:
        record.pod["metadata"].update(deletionTimestamp="t", deletionGracePeriodSeconds=seconds)
        termination.deleted(record)
        assert record.termination == Termination(grace)


async def test_a_shorter_grace_period_keeps_the_reason_of_an_eviction(lab: Lab) -> None:
    record = lab.record()
    termination.evicted(record, "Evicted", "no memory", 30.0, disrupted=True)
    record.pod["metadata"].update(deletionTimestamp="t", deletionGracePeriodSeconds=1)
    termination.deleted(record)
    assert record.termination == Termination(1.0, "Evicted", "no memory", disrupted=True)


async def test_a_pod_that_was_deleted_has_no_status_to_write(lab: Lab) -> None:
    record = lab.record()
    termination.gone(record)
    assert record.termination is not None and record.termination.gone and not record.holds
