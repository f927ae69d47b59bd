"""Verdicts on a resize (granted, deferred, infeasible), and the order in which they are made."""

from __future__ import annotations

import pytest
from tests.support.resizing import holding, pod, room, verdict

from podfit.agent.decide.resize.allocate import Candidate, NodePolicy, decide, queue_key, victims
from podfit.api.quantity import Quantity
from podfit.api.resize.states import desired_of
from podfit.api.resize.verdicts import Deferred, Granted, Infeasible, Unchanged


def test_a_resize_that_fits_beside_the_other_pods_is_granted() -> None:
    assert verdict(pod({"cpu": "500m", "memory": "1"}), holding("1", "1"), room(1000, 10, 500)) == Granted()


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [("1", Unchanged), ("500m", Granted), ("1001m", Deferred), ("1500m", Deferred), ("3", Infeasible)],
)
def test_a_pressure_defers_what_grows_but_not_what_shrinks_or_never_fits(cpu: str, expected: type) -> None:
    body = pod({"cpu": cpu, "memory": "1"})
    why = ("Evicted", "The node had condition: [DiskPressure]. ")
    space = room(2000, 10, 900)
    found = decide(body, desired_of(body), holding("1", "1"), space, "Burstable", NodePolicy(), kept_out=why)
    assert isinstance(found, expected)
    if isinstance(found, Deferred):
        assert (found.reason, found.message, found.missing) == (*why, ())


def test_another_spelling_of_the_same_size_changes_nothing() -> None:
    assert verdict(pod({"cpu": "0.1", "memory": "65536Ki"}), holding("100m", "64Mi"), room(1, 1)) == Unchanged()


def test_cpu_is_reported_before_memory() -> None:
    body = pod({"cpu": "700m", "memory": "900"})
    refused = verdict(body, holding("1m", "1"), room(1000, 1000, 500, 500))
    assert isinstance(refused, Deferred)
    assert refused.reason == "OutOfcpu"
    assert refused.message == "Node didn't have enough resource: cpu, requested: 700, used: 500, capacity: 1000"
    assert [short.resource for short in refused.missing] == ["cpu", "memory"]


def test_more_than_the_whole_node_is_infeasible_unless_configured_to_wait() -> None:
    body = pod({"cpu": "3", "memory": "1"})
    refused = verdict(body, holding("1", "1"), room(2000, 10))
    assert refused == Infeasible(
        "insufficient_node_allocatable", "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"
    )
    waiting = verdict(body, holding("1", "1"), room(2000, 10), policy=NodePolicy(beyond_allocatable="Deferred"))
    assert isinstance(waiting, Deferred)


@pytest.mark.parametrize(
    ("policy", "qos", "detail"),
    [
        (NodePolicy(cpu_manager="static"), "Guaranteed", "guaranteed_pod_cpu_manager_static_policy"),
        (NodePolicy(memory_manager="Static"), "Guaranteed", "guaranteed_pod_memory_manager_static_policy"),
        (NodePolicy(swap=True), "Burstable", "swap_limitation"),
    ],
)
def test_a_node_that_cannot_resize_reports_the_reason(policy: NodePolicy, qos: str, detail: str) -> None:
    refused = verdict(pod({"cpu": "2m", "memory": "2"}), holding("1m", "1"), room(1000, 1000), qos, policy)
    assert isinstance(refused, Infeasible) and refused.detail == detail


def test_static_managers_leave_burstable_pods_alone() -> None:
    policy = NodePolicy(cpu_manager="static", memory_manager="Static")
    assert verdict(pod({"cpu": "2m", "memory": "2"}), holding("1m", "1"), room(1000, 1000), policy=policy) == Granted()


def test_swap_does_not_mind_a_container_that_restarts_for_memory() -> None:
    restarting = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}
    body = pod({"cpu": "1m", "memory": "2"}, container=restarting)
    assert verdict(body, holding("1m", "1"), room(1000, 1000), policy=NodePolicy(swap=True)) == Granted()


def test_a_static_pod_is_never_resized() -> None:
    body = pod({"cpu": "2m", "memory": "1"}, annotations={"kubernetes.io/config.mirror": "x"})
    refused = verdict(body, holding("1m", "1"), room(1000, 1000))
    assert isinstance(refused, Infeasible) and refused.detail == "static_pod"


def test_the_queue_prefers_shrinking_then_priority_then_guaranteed_then_age() -> None:
    plain, important = pod({}), pod({}, spec={"priority": 10})
    shrinking = queue_key(plain, False, "Burstable", None)
    keys = [
        shrinking,
        queue_key(important, True, "Burstable", 9.0),
        queue_key(plain, True, "Guaranteed", 9.0),
        queue_key(plain, True, "Burstable", 1.0),
        queue_key(plain, True, "Burstable", 2.0),
        queue_key(plain, True, "Burstable", None),
    ]
    assert sorted(keys, key=lambda key: key) == keys


def candidate(uid: str, qos: str, cpu: int, critical: bool = False) -> Candidate:
    return Candidate(uid, qos, 0, critical, {"cpu": Quantity.of_milli(cpu)})


def test_only_the_burstable_pod_that_frees_enough_is_evicted() -> None:
    lacking = decide(
        pod({"cpu": "1100m"}),
        desired_of(pod({"cpu": "1100m"})),
        holding("100m", "0"),
        room(2000, 10, 1500),
        "Burstable",
        NodePolicy(),
    )
    assert isinstance(lacking, Deferred)
    others = [candidate("be", "BestEffort", 0), candidate("burst", "Burstable", 700), candidate("g", "Guaranteed", 800)]
    assert victims(2_000_001_000, lacking.missing, others) == ["burst"]
    assert victims(2_000_001_000, lacking.missing, [candidate("c", "Burstable", 9000, critical=True)]) != []
    assert victims(0, lacking.missing, [candidate("c", "Burstable", 9000, critical=True)]) == []
