"""The phase that ends the pass over a pod with no container left to run."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.phases.finalize import finalize
from podfit.agent.phases.outcome import Stop
from podfit.agent.pods import termination
from podfit.reconcile.result import DONE


async def test_a_pod_with_an_allocation_continues(lab: Lab) -> None:
    assert await finalize(lab.context(lab.add())) == DONE


async def test_a_pod_without_an_allocation_is_not_changed_until_it_terminates(lab: Lab) -> None:
    record = lab.record()
    assert await finalize(lab.context(record)) == Stop()
    assert not record.removed
    lab.records[record.uid] = record
    termination.gone(record)
    assert await finalize(lab.context(record)) == Stop()
    assert record.uid not in lab.records


async def test_a_finished_pod_whose_status_is_written_needs_no_pass(lab: Lab) -> None:
    record = lab.add()
    record.finished = True
    assert await finalize(lab.context(record)) == Stop()
    record.unreported = True
    assert await finalize(lab.context(record)) == DONE
