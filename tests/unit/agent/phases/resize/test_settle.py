"""The phase that decides whether a resize is complete."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.actuation import attempts
from podfit.agent.phases.resize.actuate import actuate
from podfit.agent.phases.resize.restart import restart
from podfit.agent.phases.resize.settle import settle
from podfit.agent.pods.record import PodRecord


async def granted(lab: Lab) -> PodRecord:
    record = await lab.run()
    lab.grant(record, "200m")
    lab.parts.resizing.conditions.begin(record)
    return record


async def test_an_incomplete_resize_stays_in_progress(lab: Lab) -> None:
    record = await granted(lab)
    await settle(await lab.observed(record))
    assert record.resize.in_progress is not None and "ResizeCompleted" not in lab.events.reasons


async def test_a_complete_resize_ends_the_condition_with_one_event(lab: Lab) -> None:
    record = await granted(lab)
    pod = await lab.observed(record)
    await restart(pod)
    await actuate(pod)
    await pod.observe()
    await settle(pod)
    await settle(pod)
    assert record.resize.in_progress is None
    assert lab.events.reasons.count("ResizeCompleted") == 1


async def test_a_container_that_still_restarts_keeps_the_resize_open(lab: Lab) -> None:
    record = await granted(lab)
    pod = await lab.observed(record)
    await restart(pod)
    await actuate(pod)
    await pod.observe()
    record.restarting = {"c": "id"}
    await settle(pod)
    assert record.resize.in_progress is not None


async def test_a_failed_resize_keeps_its_error(lab: Lab) -> None:
    record = await granted(lab)
    pod = await lab.observed(record)
    lab.parts.resizing.conditions.fail(record, "no")
    attempts.failed(record, pod.snapshot.allocated, 5.0, 0.0)
    await settle(pod)
    assert record.resize.in_progress is not None and record.resize.in_progress.message == "no"
