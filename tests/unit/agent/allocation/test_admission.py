"""Admission of new pods: free capacity, labels, and critical pods."""

from __future__ import annotations

from typing import Any

import pytest
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


def listening(name: str, port: int, **more: Any) -> Any:
    made = pod(name)
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": port, **more}]
    return made


async def test_a_pod_whose_host_port_another_pod_has_is_rejected(lab: Lab) -> None:
    lab.add(listening("a", 8080))
    record = lab.add(listening("b", 8080, protocol="TCP", hostIP="127.0.0.1"))
    assert not record.admitted and record.rejected is not None and record.rejected[0] == "NodePorts"
    assert lab.events.reasons == ["NodePorts"]


@pytest.mark.parametrize("other", [{"port": 8080, "protocol": "UDP"}, {"port": 8081}], ids=["protocol", "port"])
async def test_host_ports_that_do_not_collide_are_admitted(lab: Lab, other: dict[str, Any]) -> None:
    lab.add(listening("a", 8080))
    assert lab.add(listening("b", **other)).admitted


async def test_the_host_port_of_a_pod_that_has_left_is_free(lab: Lab) -> None:
    first = lab.add(listening("a", 8080))
    lab.built.tracking.roster.changed(first.pod, None)
    assert lab.add(listening("b", 8080)).admitted
