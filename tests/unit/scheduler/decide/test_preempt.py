"""Which pods are preempted for a pod of higher priority."""

from __future__ import annotations

import pytest
from tests.support.scheduling import HOST, REQUIRED, board, node, pod, refused

from podfit.api.objects import Object
from podfit.scheduler.decide.board import Board
from podfit.scheduler.decide.preempt import Budget, NoRoom, PreemptionCandidate, budgets_from, preempt


def victims(where: Board, what: Object, budgets: list[Budget] | None = None) -> PreemptionCandidate | NoRoom:
    return preempt(where, what, refused(where, what), budgets or [])


def test_the_node_with_the_least_important_victims_is_chosen() -> None:
    where = board([node("n1", cpu="1"), node("n2", cpu="1")], [pod("p", on="n1", priority=5), pod("q", on="n2")])
    found = victims(where, pod("vip", priority=10))
    assert isinstance(found, PreemptionCandidate)
    assert (found.node, [victim.key[1] for victim in found.victims]) == ("n2", ["q"])


def test_pods_that_need_not_go_stay() -> None:
    pods = [pod("small", cpu="1", on="n1", priority=1), pod("big", cpu="3", on="n1", priority=2)]
    found = victims(board([node("n1")], pods), pod("vip", cpu="1", priority=10))
    assert isinstance(found, PreemptionCandidate)
    assert [victim.key[1] for victim in found.victims] == ["small"]


def test_a_budget_is_broken_only_where_nothing_else_helps() -> None:
    budget = {
        "metadata": {"namespace": "ns", "name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 0},
    }
    pods = [pod("kept", on="n1", app="kept"), pod("free", on="n2", priority=5)]
    where = board([node("n1", cpu="1"), node("n2", cpu="1")], pods)
    found = victims(where, pod("vip", priority=10), budgets_from([budget]))
    assert isinstance(found, PreemptionCandidate)
    assert (found.node, found.violations) == ("n2", 0)
    where = board([node("n1", cpu="1")], pods[:1])
    found = victims(where, pod("vip", priority=10), budgets_from([budget]))
    assert isinstance(found, PreemptionCandidate)
    assert found.violations == 1


def test_an_anti_affine_pod_may_be_preempted() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}}
    where = board([node("n1")], [pod("p", on="n1", affinity={"podAntiAffinity": {REQUIRED: [term]}})])
    found = victims(where, pod("vip", priority=10))
    assert isinstance(found, PreemptionCandidate)
    assert [victim.key[1] for victim in found.victims] == ["p"]


@pytest.mark.parametrize(
    ("cpu", "priority", "message"),
    [
        ("4", 0, "0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        ("5", 9, "0/1 nodes are available: 1 Preemption is not helpful for scheduling."),
        ("4", 3, "0/1 nodes are available: 1 Insufficient cpu."),
    ],
)
def test_the_reason_why_preemption_does_not_help_is_reported(cpu: str, priority: int, message: str) -> None:
    pods = [pod("low", on="n1"), pod("high", on="n1", priority=5)]
    found = victims(board([node("n1")], pods), pod("new", cpu=cpu, priority=priority))
    assert found == NoRoom(message)


def test_a_pod_whose_victims_are_going_waits_for_them() -> None:
    going = pod("low", on="n1")
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    vip = pod("vip", priority=10)
    vip["status"]["nominatedNodeName"] = "n1"
    found = victims(board([node("n1", cpu="1")], [going]), vip)
    assert found == NoRoom("not eligible due to a terminating pod on the nominated node.", eligible=False)
