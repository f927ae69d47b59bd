"""Allocated → Actuated: the phases restart and actuate, on a pod that runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.agent.lab import Lab, resized

from podfit.agent import loop
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.observe import observe
from podfit.agent.phases.resize.actuate import actuate
from podfit.agent.phases.resize.restart import restart
from podfit.agent.phases.resize.settle import settle
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.reconcile.result import DONE, Requeue


async def running(lab: Lab) -> PodRecord:
    record = lab.add()
    await loop.reconcile(lab.context(record))
    return record


def grant(lab: Lab, record: PodRecord, cpu: str) -> None:
    lab.built.tracking.roster.changed(record.pod, resized(record.pod, cpu, revision=1000))
    lab.built.allocation.allocations.grant(record, record.desired)


async def observed(lab: Lab, record: PodRecord) -> PodContext:
    pod = lab.context(record)
    await observe(pod)
    return pod


def actuated_cpu(lab: Lab, record: PodRecord) -> Any:
    return lab.ledger.actuated(record.uid).containers["c"]["limits"]["cpu"]


async def test_a_granted_size_is_applied_and_recorded(lab: Lab) -> None:
    record = await running(lab)
    grant(lab, record, "200m")
    pod = await observed(lab, record)
    assert (await restart(pod), await actuate(pod)) == (DONE, DONE)
    assert actuated_cpu(lab, record) == "200m"
    (container,) = pod.snapshot.running.values()
    assert (await lab.runtime.container_limits(container.id)).cpu_quota_us == 20_000


async def test_a_converged_pod_has_no_steps_and_no_status_to_write(lab: Lab) -> None:
    record = await running(lab)
    pod = await observed(lab, record)
    assert await restart(pod) == DONE
    assert pod.plan is not None and not pod.plan.steps
    written = len(lab.api.statuses)
    assert await loop.reconcile(lab.context(record)) == DONE
    assert len(lab.api.statuses) == written


async def test_a_failed_resize_keeps_the_allocation_and_is_retried_with_a_growing_pause(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await running(lab)
    grant(lab, record, "200m")

    async def refuse(*_: Any) -> None:
        raise RuntimeFailure("no")

    async def no_batch(*_: Any) -> bool:
        return False

    monkeypatch.setattr(lab.runtime, "update_container", refuse)
    monkeypatch.setattr(lab.runtime, "update_all", no_batch)
    pauses = []
    for _ in range(2):
        pod = await observed(lab, record)
        await restart(pod)
        outcome = await actuate(pod)
        assert isinstance(outcome, Requeue)
        pauses.append(outcome.after_s)
        await lab.clock.advance(outcome.after_s)
    assert pauses == [5.0, 10.0]
    assert actuated_cpu(lab, record) == "100m"
    assert lab.ledger.allocated(record.uid) is pod.snapshot.allocated
    assert record.resize.in_progress is not None and record.resize.in_progress.reason == "Error"
    assert "ResizeError" in lab.events.reasons


async def test_a_resize_is_complete_once_it_is_actuated(lab: Lab) -> None:
    record = await running(lab)
    grant(lab, record, "200m")
    pod = await observed(lab, record)
    await settle(pod)
    assert record.resize.in_progress is not None
    await restart(pod)
    await actuate(pod)
    await pod.observe()
    await settle(pod)
    assert record.resize.in_progress is None
    assert lab.events.reasons[-1] == "ResizeCompleted"
