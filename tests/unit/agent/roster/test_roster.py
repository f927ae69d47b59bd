"""Which pods are this node's: new, updated, deleted, and late events."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod, resized


async def test_a_pod_of_the_watch_is_admitted_and_enqueued(lab: Lab) -> None:
    lab.built.tracking.roster.changed(None, pod())
    assert lab.records["u"].admitted
    assert lab.queue.enqueued == ["u"]


async def test_an_event_older_than_the_deletion_does_not_bring_a_pod_back(lab: Lab) -> None:
    roster, late = lab.built.tracking.roster, pod()
    last = resized(late, "100m", revision=5)
    roster.changed(None, last)
    record = lab.records["u"]
    record.removed = True
    roster.changed(last, None)
    assert lab.records == {}
    roster.changed(None, late)
    assert lab.records == {}


async def test_another_pod_of_the_same_name_replaces_the_first(lab: Lab) -> None:
    roster, first, second = lab.built.tracking.roster, pod("a"), pod("b")
    roster.changed(None, first)
    roster.changed(first, second)
    gone = lab.records["a"].termination
    assert gone is not None and gone.gone
    assert lab.records["b"].admitted


async def test_pods_deleted_during_the_adoption_are_found_missing(lab: Lab) -> None:
    lab.add(pod("a"))
    lab.add(pod("b"))
    lab.built.tracking.roster.remove_missing({"b"})
    assert [uid for uid, record in lab.records.items() if record.termination is not None] == ["a"]


async def test_a_finished_pod_holds_nothing_when_the_agent_starts(lab: Lab) -> None:
    body = pod()
    body["status"]["phase"] = "Succeeded"
    record = lab.add(body)
    assert record.finished and not record.admitted
    assert lab.built.allocation.allocations.room("").pods == 0
