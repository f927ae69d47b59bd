"""Cgroups that another program has written to."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.actuation.drift import Drift
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import LimitsChange


async def drifted(lab: Lab) -> tuple[PodRecord, Drift, str]:
    record = await lab.run()
    await lab.observed(record)
    assert record.state is not None
    return record, Drift(lab.core, lab.records, lab.runtime), record.state.containers[0].id


async def test_a_cgroup_as_it_was_set_is_not_an_event(lab: Lab) -> None:
    _, drift, _ = await drifted(lab)
    await drift.check()
    assert "CgroupChanged" not in lab.events.reasons


async def test_a_changed_cgroup_is_reported_once_for_each_value(lab: Lab) -> None:
    _, drift, container = await drifted(lab)
    for memory in (32 << 20, 32 << 20, 16 << 20):
        await lab.runtime.update_container(container, LimitsChange(memory_bytes=memory))
        await drift.check()
    said = [message for reason, message in lab.events.kept if reason == "CgroupChanged"]
    assert len(said) == 2
    assert said[0] == (
        "Container c: the cgroup has cpu request 100m, cpu limit 100m, memory limit 32Mi, but "
        "cpu request 100m, cpu limit 100m, memory limit 64Mi were set"
    )


async def test_a_resize_in_progress_is_not_drift(lab: Lab) -> None:
    record, drift, container = await drifted(lab)
    record.resize = record.resize.granted(2, 0.0)
    await lab.runtime.update_container(container, LimitsChange(memory_bytes=32 << 20))
    await drift.check()
    assert "CgroupChanged" not in lab.events.reasons


async def test_every_running_pod_gets_a_pass(lab: Lab) -> None:
    _, drift, _ = await drifted(lab)
    lab.queue.enqueued.clear()
    await drift.check()
    assert lab.queue.enqueued == ["u"]
