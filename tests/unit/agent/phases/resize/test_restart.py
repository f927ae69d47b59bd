"""The phase that plans a resize and stops containers that restart for it."""

from __future__ import annotations

from typing import Any

from tests.unit.agent.lab import Lab, pod

from podfit.agent.actuation import attempts
from podfit.agent.phases.resize.restart import being_stopped, restart
from podfit.agent.pods import termination
from podfit.reconcile.result import DONE, Requeue


def restarting_for_memory() -> Any:
    body = pod()
    body["spec"]["containers"][0]["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    return body


async def test_a_resize_that_needs_no_restart_is_planned(lab: Lab) -> None:
    record = await lab.run()
    lab.grant(record, "200m")
    found = await lab.observed(record)
    assert await restart(found) == DONE
    assert found.plan is not None and found.plan.steps and not record.restarting


async def test_a_container_whose_policy_requests_it_is_stopped_and_marked(lab: Lab) -> None:
    record = await lab.run(restarting_for_memory())
    lab.grant(record, "100m", "96Mi")
    await restart(await lab.observed(record))
    assert set(record.restarting) == {"c"} and being_stopped(record)
    assert ("Killing", "Container c resize requires restart") in lab.events.kept


async def test_a_terminating_pod_is_resized_without_a_restart(lab: Lab) -> None:
    record = await lab.run(restarting_for_memory())
    lab.grant(record, "100m", "96Mi")
    termination.evicted(record, "Evicted", "x", 30.0, True)
    await restart(await lab.observed(record))
    assert not record.restarting


async def test_a_failed_resize_is_not_planned_again_before_its_pause_is_over(lab: Lab) -> None:
    record = await lab.run()
    lab.grant(record, "200m")
    found = await lab.observed(record)
    attempts.failed(record, found.snapshot.allocated, 5.0, lab.clock.monotonic())
    assert await restart(found) == Requeue(5.0, "a failed resize is retried")
    assert found.plan is None
