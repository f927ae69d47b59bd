"""Which containers start, and when a pod has terminated."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.decide.pod import lifecycle
from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.runtimes.values import EXITED, RUNNING, ContainerState


def ran(name: str, state: str = RUNNING, code: int = 0) -> Seen:
    last = ContainerState("id-" + name, name, 0, state, "i", "i", 0.0, exit_code=code)
    return Seen(name, last, started=state == RUNNING, ready=state == RUNNING)


def steps(spec: dict[str, Any], *seen: Seen, wanted: tuple[str, ...] = (), delay: float = 0.0) -> lifecycle.Next:
    known = {item.name: item for item in seen}
    return lifecycle.next_steps({"spec": spec}, known, lambda obj: delay, frozenset(wanted))


def test_containers_start_when_all_init_containers_are_done() -> None:
    spec = {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]}
    assert steps(spec, Seen("i"), Seen("s"), Seen("c")).start == ("i",)
    assert steps(spec, ran("i", EXITED), Seen("s"), Seen("c")).start == ("s",)
    assert steps(spec, ran("i", EXITED), ran("s"), Seen("c")).start == ("c",)


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("Always", 0, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_the_restart_policy_decides(policy: str, code: int, again: bool) -> None:
    spec = {"restartPolicy": policy, "containers": [{"name": "c"}]}
    following = steps(spec, ran("c", EXITED, code))
    assert following.start == (("c",) if again else ())
    assert following.over is not again


def rule(operator: str, *values: int, action: str = "Restart") -> dict[str, Any]:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(values)}}


@pytest.mark.parametrize(
    ("pod_policy", "own", "code", "again"),
    [
        ("Never", {"restartPolicy": "Always"}, 0, True),
        ("Never", {"restartPolicy": "OnFailure"}, 1, True),
        ("Never", {"restartPolicy": "OnFailure"}, 0, False),
        ("Always", {"restartPolicy": "Never"}, 1, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("In", 42)]}, 42, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("In", 42)]}, 41, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("NotIn", 0, 1)]}, 2, True),
        ("Never", {"restartPolicy": "OnFailure", "restartPolicyRules": [rule("In", 9)]}, 1, True),
    ],
)
def test_a_containers_own_policy_and_rules_go_before_the_pods(
    pod_policy: str, own: dict[str, Any], code: int, again: bool
) -> None:
    spec = {"restartPolicy": pod_policy, "containers": [{"name": "c", **own}, {"name": "d", "restartPolicy": "Never"}]}
    seen = (ran("c", EXITED, code), ran("d", EXITED))
    following = steps(spec, *seen)
    assert following.start == (("c",) if again else ())
    assert following.over is not again
    shown = "Running" if again else "Failed" if code else "Succeeded"
    assert lifecycle.phase({"spec": spec}, {item.name: item for item in seen}, False) == shown


@pytest.mark.parametrize(("own", "over"), [({}, False), ({"restartPolicy": "Never"}, True)])
def test_an_init_container_may_have_a_policy_of_its_own(own: dict[str, Any], over: bool) -> None:
    spec = {"restartPolicy": "Always", "initContainers": [{"name": "i", **own}], "containers": [{"name": "c"}]}
    following = steps(spec, ran("i", EXITED, 1), Seen("c"))
    assert (following.over, following.start) == (over, () if over else ("i",))
    shown = lifecycle.phase({"spec": spec}, {"i": ran("i", EXITED, 1), "c": Seen("c")}, False)
    assert shown == ("Failed" if over else "Pending")


def test_a_container_that_debugs_a_pod_starts_once_and_counts_for_nothing() -> None:
    spec = {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}], "ephemeralContainers": [{"name": "e"}]}
    assert steps(spec, ran("i"), Seen("c"), Seen("e")).start == ("e",)
    assert steps(spec, ran("i", EXITED), ran("c"), ran("e", EXITED, 1)).start == ()
    job = {**spec, "restartPolicy": "Never"}
    assert steps(job, ran("i", EXITED), ran("c", EXITED), ran("e")).over
    seen = {item.name: item for item in (ran("i", EXITED), ran("c", EXITED), ran("e", EXITED, 1))}
    assert lifecycle.phase({"spec": job}, seen, False) == "Succeeded"


def test_a_container_ended_for_a_resize_starts_whatever_the_policy() -> None:
    spec = {"restartPolicy": "OnFailure", "containers": [{"name": "c"}]}
    assert steps(spec, ran("c", EXITED), wanted=("c",), delay=100).start == ("c",)


def test_a_crashing_container_waits() -> None:
    spec = {"containers": [{"name": "c"}]}
    assert steps(spec, ran("c", EXITED, 1), delay=10).later == (("c", 10),)


@pytest.mark.parametrize(
    ("policy", "seen", "phase"),
    [
        ("Always", Seen("c"), "Pending"),
        ("Always", ran("c"), "Running"),
        ("Always", ran("c", EXITED), "Running"),
        ("OnFailure", ran("c", EXITED), "Succeeded"),
        ("OnFailure", ran("c", EXITED, 1), "Running"),
        ("Never", ran("c", EXITED, 1), "Failed"),
    ],
)
def test_the_phase_follows_the_containers(policy: str, seen: Seen, phase: str) -> None:
    spec = {"restartPolicy": policy, "containers": [{"name": "c"}]}
    assert lifecycle.phase({"spec": spec}, {"c": seen}, False) == phase


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_a_pod_whose_container_a_resize_restarts_is_not_over(policy: str) -> None:
    spec = {"restartPolicy": policy, "containers": [{"name": "c"}]}
    assert lifecycle.phase({"spec": spec}, {"c": ran("c", EXITED)}, False, frozenset({"c"})) == "Running"
