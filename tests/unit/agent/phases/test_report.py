"""The phase that writes the status."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

from podfit.agent.phases.report import report
from podfit.agent.phases.resize.actuate import actuate
from podfit.agent.phases.resize.restart import restart
from podfit.reconcile.result import DONE, Requeue


async def test_a_running_pod_is_reported_and_needs_no_other_pass(lab: Lab) -> None:
    record = await lab.run()
    lab.api.statuses.clear()
    record.start_time = ""
    assert await report(await lab.observed(record)) == DONE


async def test_a_pod_with_a_deadline_gets_a_pass_when_it_has_ended(lab: Lab) -> None:
    record = await lab.run(pod(activeDeadlineSeconds=50))
    outcome = await report(await lab.observed(record))
    assert isinstance(outcome, Requeue) and 0 < outcome.after_s <= 50 and outcome.reason == "the pod's deadline"


async def test_room_that_a_decrease_has_freed_is_counted(lab: Lab) -> None:
    record = await lab.run(pod(cpu="2"))
    lab.grant(record, "1")
    found = await lab.observed(record)
    await restart(found)
    await actuate(found)
    await found.observe()
    assert lab.built.allocation.allocations.room("").used["cpu"].milli == 2000, "until the smaller size is applied"
    await report(found)
    assert lab.built.allocation.allocations.room("").used["cpu"].milli == 1000
