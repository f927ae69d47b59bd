"""One pass over a pod: the fold over its phases, and what a whole pass does."""

from __future__ import annotations

import pytest
from tests.unit.agent.lab import Lab

from podfit.agent import loop
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome, Stop
from podfit.agent.runtimes.values import RUNNING
from podfit.reconcile.result import DONE, Requeue, Result


@pytest.mark.parametrize(
    ("outcomes", "result"),
    [
        ([DONE, DONE], DONE),
        ([Requeue(5.0, "a"), DONE, Requeue(2.0, "b"), Requeue(3.0, "c")], Requeue(2.0, "b")),
        ([Requeue(5.0, "a"), Stop(), Requeue(1.0, "never")], DONE),
        ([DONE, Stop(Requeue(9.0, "a"))], Requeue(9.0, "a")),
    ],
)
async def test_the_earliest_requeue_wins_and_a_stop_ends_the_pass(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome], result: Result
) -> None:
    left = list(outcomes)

    async def phase(pod: PodContext) -> Outcome:
        return left.pop(0)

    monkeypatch.setattr(loop, "PHASES", (phase,) * len(outcomes))
    assert await loop.reconcile(lab.context(lab.record())) == result


async def test_a_pass_starts_an_admitted_pod_and_reports_it(lab: Lab) -> None:
    record = lab.add()
    await loop.reconcile(lab.context(record))
    assert record.state is not None
    assert [container.state for container in record.state.containers] == [RUNNING]
    assert lab.api.statuses[-1]["phase"] == "Running"
    assert lab.ledger.is_durable(record.uid)


async def test_a_pod_that_was_deleted_is_stopped_removed_and_forgotten(lab: Lab) -> None:
    record = lab.add()
    await loop.reconcile(lab.context(record))
    lab.built.tracking.roster.changed(record.pod, None)
    while record.uid in lab.records:
        await loop.reconcile(lab.context(record))
        await lab.clock.advance(1.0)
    assert await lab.runtime.pods() == []
    assert lab.ledger.uids() == set()
