"""Containers that a resize restarts: marked on disk before the stop."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent import loop
from podfit.agent.phases.observe import observe


async def test_a_restart_is_on_disk_before_the_container_is_stopped_and_cleared_after_its_start(lab: Lab) -> None:
    record = lab.add()
    await loop.reconcile(lab.context(record))
    pod, restarts = lab.context(record), lab.parts.resizing.restarts
    await observe(pod)
    assert restarts.due(record, pod.snapshot, ["c"]) == ["c"]
    await restarts.begin(record, pod.snapshot, ["c"])
    assert lab.ledger.restarting(record.uid) == {"c": pod.snapshot.running["c"].id}
    assert lab.ledger.is_durable(record.uid)
    restarts.done(record, "c")
    assert not record.restarting and not lab.ledger.restarting(record.uid)


async def test_a_mark_of_a_container_that_was_replaced_is_old(lab: Lab) -> None:
    record = lab.add()
    await loop.reconcile(lab.context(record))
    lab.ledger.restart(record.uid, {"c": "an earlier container"})
    restarts = lab.parts.resizing.restarts
    restarts.restore(record)
    assert dict(record.restarting) == {"c": "an earlier container"}
    pod = lab.context(record)
    await observe(pod)
    assert restarts.due(record, pod.snapshot, []) == []
    assert not record.restarting
