"""The node's allocations, and the capacity that is left."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

from podfit.api.resize.states import Allocated, desired_of


async def test_the_room_of_a_pod_is_what_others_leave(lab: Lab) -> None:
    lab.add(pod("a", cpu="1"))
    lab.add(pod("b", cpu="2"))
    allocations = lab.built.allocation.allocations
    assert (allocations.room("a").used["cpu"].milli, allocations.room("a").pods) == (2000, 1)
    assert (allocations.room("").used["cpu"].milli, allocations.room("").pods) == (3000, 2)


async def test_a_grant_of_less_says_that_room_became_free(lab: Lab) -> None:
    record = lab.add(pod(cpu="2"))
    allocations = lab.built.allocation.allocations
    assert not allocations.grant(record, desired_of(pod(cpu="3")))
    assert allocations.grant(record, desired_of(pod(cpu="1")))
    assert not allocations.recount(record), "nothing changed since"


async def test_a_removed_pod_is_no_longer_counted(lab: Lab) -> None:
    record = lab.add(pod(cpu="2"))
    record.finished = True
    lab.built.allocation.allocations.drop("u")
    assert lab.built.allocation.allocations.room("").pods == 0


async def test_a_lost_allocation_is_restored_as_given(lab: Lab) -> None:
    desired = desired_of(pod(cpu="2"))
    lab.built.allocation.allocations.restore("x", Allocated(desired.containers, desired.pod))
    found = lab.ledger.allocated("x")
    assert found is not None and found.containers == desired.containers
