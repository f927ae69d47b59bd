"""Evictions: as few pods as necessary, each with its grace period."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

from podfit.api.resize.verdicts import Shortage

CRITICAL = 2_000_000_000


async def test_an_eviction_has_the_shorter_grace_period_an_event_and_a_pass(lab: Lab) -> None:
    record, evictions = lab.add(), lab.built.allocation.evictions
    lab.queue.enqueued.clear()
    evictions.evict(record, "Evicted", "no memory", grace_s=3.0)
    assert record.termination is not None
    assert (record.termination.grace_s, record.termination.reason) == (3.0, "Evicted")
    assert lab.events.kept[-1] == ("Evicted", "no memory") and lab.queue.enqueued == ["u"]
    evictions.evict(record, "Evicted", "no memory", grace_s=300.0)
    assert record.termination.grace_s == 30.0, "never longer than its own"


async def test_pods_that_leave_already_count_as_room(lab: Lab) -> None:
    leaving, staying = lab.add(pod("a", cpu="2")), lab.add(pod("b", cpu="1"))
    critical = lab.record(pod("c", cpu="2", priority=CRITICAL))
    evictions = lab.built.allocation.evictions
    evictions.evict(leaving, "Evicted", "x")
    missing = [Shortage("cpu", requested=2000, used=3000, capacity=4000)]
    assert evictions.make_room(critical, missing, [leaving, staying])
    assert staying.termination is None


async def test_without_enough_to_evict_nothing_is_evicted(lab: Lab) -> None:
    other = lab.add(pod("a", cpu="1"))
    critical = lab.record(pod("c", cpu="4", priority=CRITICAL))
    missing = [Shortage("cpu", requested=9000, used=1000, capacity=4000)]
    assert not lab.built.allocation.evictions.make_room(critical, missing, [other])
    assert other.termination is None
