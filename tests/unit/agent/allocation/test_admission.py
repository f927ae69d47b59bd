"""Admission of new pods: room, labels, and critical pods."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

CRITICAL = 2_000_000_000


async def test_a_pod_that_fits_is_admitted_with_its_desired_size(lab: Lab) -> None:
    record = lab.add(pod(cpu="2"))
    assert record.admitted and record.rejected is None
    allocated = lab.ledger.allocated("u")
    assert allocated is not None and allocated.containers == record.desired.containers


async def test_a_pod_that_does_not_fit_is_rejected_with_an_event(lab: Lab) -> None:
    lab.add(pod("a", cpu="3"))
    record = lab.add(pod("b", cpu="2"))
    assert not record.admitted and record.rejected is not None and record.rejected[0] == "OutOfcpu"
    assert lab.events.reasons == ["OutOfcpu"]
    assert lab.ledger.allocated("b") is None


async def test_a_critical_pod_waits_for_the_pods_that_are_evicted_for_it(lab: Lab) -> None:
    lab.add(pod("a", cpu="3"))
    record = lab.add(pod("b", cpu="2", priority=CRITICAL, priorityClassName="system-node-critical"))
    assert not record.admitted and record.rejected is None
    victim = lab.records["a"]
    assert victim.termination is not None and victim.termination.reason == "Preempting"
    lab.built.tracking.roster.changed(victim.pod, None)
    assert record.admitted


async def test_a_pod_that_the_labels_keep_out_is_rejected_only_after_the_node_was_read_again(lab: Lab) -> None:
    record = lab.add(pod(nodeSelector={"disk": "ssd"}))
    assert not record.admitted and record.rejected is None
    lab.node.labels = {**lab.node.labels, "disk": "ssd"}
    await lab.clock.advance(0.0)
    assert record.admitted
