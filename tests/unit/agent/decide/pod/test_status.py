"""The status of a pod."""

from __future__ import annotations

from tests.unit.agent.decide.pod.facts import RUNS, SIZE, facts, pod

from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.decide.pod.status import build, rejected, remembered

LARGER = {"requests": {"cpu": "200m"}}


def test_a_container_is_reported_with_its_state_and_its_allocated_size() -> None:
    [container] = build(facts())["containerStatuses"]
    assert (container["containerID"], container["ready"], container["allocatedResources"]) == (
        "fake://id",
        True,
        SIZE["requests"],
    )
    assert "running" in container["state"]


def test_a_container_that_has_not_started_has_no_size() -> None:
    [container] = build(facts(seen=Seen("c"), phase="Pending"))["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert not {"containerID", "allocatedResources", "resources"} & container.keys()


def test_a_generation_is_observed_once_its_resize_is_decided() -> None:
    """Otherwise a client would take the missing conditions to mean that the resize is complete."""
    undecided = pod(2, LARGER)
    undecided["status"] = {"observedGeneration": 1}
    assert facts(undecided).answers == 1
    deferred = facts().resize.refused("Deferred", "no room", 2, 10.0)
    assert facts(undecided, resize=deferred).answers == 2


def test_a_container_s_last_reported_status_is_found_by_its_id() -> None:
    status = build(facts())
    assert remembered(status, "c", "id")["containerID"] == "fake://id"
    assert remembered(status, "c", "other") == {}


def test_a_pod_that_was_not_admitted_has_failed_for_the_given_reason() -> None:
    status = rejected(pod(3), "OutOfcpu", "no room", "t", "Burstable")
    assert (status["phase"], status["reason"], status["observedGeneration"]) == ("Failed", "OutOfcpu", 3)
    assert "containerStatuses" not in status


def test_the_same_facts_give_the_same_status() -> None:
    assert build(facts(seen=RUNS)) == build(facts(seen=RUNS))
