"""The conditions of a pod's status."""

from __future__ import annotations

from typing import Any

from tests.unit.agent.decide.pod.facts import RUNS, facts, pod

from podfit.agent.decide.pod.pod_conditions import conditions
from podfit.agent.decide.pod.status import Facts
from podfit.api.objects import Object


def by_type(of: Facts) -> dict[str, Object]:
    return {condition["type"]: condition for condition in conditions(of, of.pod.get("status") or {})}


def found(of: Facts, kind: str) -> tuple[Any, ...]:
    one = by_type(of)[kind]
    return one["status"], one.get("reason"), one.get("message")


def test_a_running_pod_is_ready() -> None:
    of = facts()
    assert {kind for kind, obj in by_type(of).items() if obj["status"] == "True"} == {
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    }


def test_the_containers_that_are_not_ready_are_named() -> None:
    of = facts(seen=type(RUNS)("c", RUNS.last, conflict="port 80 is in use"))
    message = "containers with unready status: [c]; c: port 80 is in use"
    assert found(of, "ContainersReady") == found(of, "Ready") == ("False", "ContainersNotReady", message)


def test_a_pod_is_not_ready_while_a_readiness_gate_is_closed() -> None:
    gated = pod(readinessGates=[{"conditionType": "example.com/ok"}])
    message = 'corresponding condition of pod readiness gate "example.com/ok" does not exist.'
    assert found(facts(gated), "Ready") == ("False", "ReadinessGatesNotReady", message)
    gated["status"] = {"conditions": [{"type": "example.com/ok", "status": "True"}]}
    assert found(facts(gated), "Ready")[0] == "True"


def test_a_finished_pod_is_not_ready_but_initialized() -> None:
    of = facts(phase="Succeeded")
    assert found(of, "Ready")[:2] == ("False", "PodCompleted")
    assert found(of, "Initialized")[:2] == ("True", "PodCompleted")


def test_a_pending_resize_is_among_the_conditions() -> None:
    of = facts(resize=facts().resize.refused("Deferred", "no room", 1, 10.0))
    assert found(of, "PodResizePending") == ("True", "Deferred", "no room")


def test_an_eviction_by_the_node_is_a_disruption() -> None:
    of = facts(disrupted="low on memory")
    assert found(of, "DisruptionTarget") == ("True", "TerminationByKubelet", "low on memory")
