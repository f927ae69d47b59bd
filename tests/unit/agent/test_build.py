"""Components of an agent share the instances that they must share."""

from __future__ import annotations

from dataclasses import fields

from tests.unit.agent.lab import Lab


async def test_there_is_one_of_each_part(lab: Lab) -> None:
    built, resizing = lab.built, lab.parts.resizing
    assert resizing.allocator is built.allocation.allocator
    assert resizing.conditions is built.allocation.conditions
    assert resizing.cpus is built.allocation.cpus
    assert lab.parts.containers.backoff is built.allocation.backoff
    assert lab.parts.volumes is built.furniture.volumes
    assert lab.parts.core is lab.core


async def test_no_part_is_missing(lab: Lab) -> None:
    groups = (lab.built, lab.parts, lab.parts.resizing, lab.parts.containers, lab.built.allocation)
    assert all(getattr(group, field.name) is not None for group in groups for field in fields(group))


async def test_a_pod_that_was_deleted_is_gone_for_all_parts(lab: Lab) -> None:
    record = await lab.run()
    lab.built.tracking.roster.changed(record.pod, None)
    await lab.parts.finalizer.finalize(record)
    assert lab.records == {} and lab.ledger.uids() == set()
    assert lab.built.allocation.allocations.room("").pods == 0
