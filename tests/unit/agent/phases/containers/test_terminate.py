"""Termination of pods: stopped, finished, reported, removed."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

from podfit.agent import loop
from podfit.agent.phases.containers.terminate import terminate
from podfit.agent.phases.observe import observe
from podfit.agent.pods.record import PodRecord
from podfit.reconcile.result import DONE


async def running(lab: Lab) -> PodRecord:
    record = lab.add(pod(restartPolicy="Never"))
    await loop.reconcile(lab.context(record))
    return record


async def test_a_pod_that_runs_is_not_changed(lab: Lab) -> None:
    record = await running(lab)
    context = lab.context(record)
    await observe(context)
    assert await terminate(context) == DONE
    assert not record.jobs.running("stop:c")


async def test_a_deleted_pod_frees_its_resources_when_nothing_of_it_runs(lab: Lab) -> None:
    record = await running(lab)
    meta = {**record.pod["metadata"], "resourceVersion": "1000", "deletionTimestamp": "t"}
    meta["deletionGracePeriodSeconds"] = 1
    deleted = {**record.pod, "metadata": meta}
    lab.built.tracking.roster.changed(record.pod, deleted)
    await loop.reconcile(lab.context(record))
    assert record.jobs.running("stop:c")
    assert lab.built.allocation.allocations.room("").pods == 1
    while not record.finished:
        await lab.clock.advance(1.0)
        await loop.reconcile(lab.context(record))
    assert lab.built.allocation.allocations.room("").pods == 0
    assert lab.api.deleted == [record.name]
