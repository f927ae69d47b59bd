"""Which pods would have to be evicted for a resize that its node defers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.scheduler import SchedulerConfig
from podfit.scheduler.decide.deferred import AlreadyFits, Evict, Unresolvable, deferred_since, make_room
from podfit.scheduler.decide.preempt import budgets_from

NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}


def pod(name: str, milli: int, priority: int = 0, given: int | None = None, app: str = "") -> Object:
    """`given` is the node's allocation, if it differs from the request."""
    has = {"cpu": f"{milli if given is None else given}m"}
    status = {"name": "c", "resources": {"requests": has}, "allocatedResources": has}
    containers = [{"name": "c", "resources": {"requests": {"cpu": f"{milli}m"}}}]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": app} if app else {}},
        "spec": {"containers": containers, "priority": priority, "nodeName": "n1"},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


def names(outcome: object) -> list[str]:
    assert isinstance(outcome, Evict)
    return [victim["metadata"]["name"] for victim in outcome.victims]


VIP = pod("vip", 3000, priority=10, given=500)


def test_enough_room_needs_no_victims() -> None:
    assert make_room(VIP, NODE, [VIP, pod("low", 500)], []) == AlreadyFits()


def test_the_least_important_go_and_only_as_many_as_needed() -> None:
    pods = [VIP, pod("mid", 1000, 5), pod("low", 1000, 1), pod("lowest", 1000, 0)]
    assert names(make_room(VIP, NODE, pods, [])) == ["lowest", "low"]


def test_a_small_victim_is_spared_when_a_bigger_one_is_needed_anyway() -> None:
    pods = [VIP, pod("tiny", 100, 0), pod("big", 2000, 1)]
    assert names(make_room(VIP, NODE, pods, [])) == ["big"]


def test_pods_as_important_as_the_resized_one_stay() -> None:
    outcome = make_room(VIP, NODE, [VIP, pod("peer", 3000, 10)], [])
    assert outcome == Unresolvable((("cpu", 2000),))
    assert str(outcome) == "2000m cpu"


def test_others_count_with_what_they_have_not_with_what_they_ask() -> None:
    assert make_room(VIP, NODE, [VIP, pod("greedy", 4000, given=500)], []) == AlreadyFits()


def test_pods_that_are_going_make_room_already() -> None:
    going = pod("going", 3000)
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert make_room(VIP, NODE, [VIP, going], []) == AlreadyFits()


def test_budgets_protect_their_pods() -> None:
    budget = {
        "metadata": {"namespace": "ns", "name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 1},
    }
    pods = [VIP, pod("k1", 1500, 0, app="kept"), pod("k2", 1500, 0, app="kept")]
    assert make_room(VIP, NODE, pods, budgets_from([budget])) == Unresolvable((("cpu", 500),))
    pods[2] = pod("free", 1500, 5)
    assert names(make_room(VIP, NODE, pods, budgets_from([budget]))) == ["k1", "free"]


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 12)), max_size=8))
def test_evictions_suffice_and_each_is_needed(others: list[tuple[int, int]]) -> None:
    pods = [pod(f"p{number}", size * 100, priority) for number, (size, priority) in enumerate(others)]
    outcome = make_room(VIP, NODE, [VIP, *pods], [])
    if not isinstance(outcome, Evict):
        return
    gone = set(names(outcome))
    left = [candidate for candidate in pods if candidate["metadata"]["name"] not in gone]
    assert make_room(VIP, NODE, [VIP, *left], []) == AlreadyFits()
    assert all(victim["spec"]["priority"] < 10 for victim in outcome.victims)
    for victim in outcome.victims:
        assert make_room(VIP, NODE, [VIP, *left, victim], []) != AlreadyFits()


def test_when_a_resize_was_deferred_is_read_from_its_condition() -> None:
    row = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    row["lastTransitionTime"] = "1970-01-01T00:01:00Z"
    assert deferred_since({"status": {"conditions": [row]}}) == 60
    assert deferred_since({"status": {"conditions": [{**row, "reason": "Infeasible"}]}}) is None
    assert deferred_since({}) is None


@pytest.mark.parametrize("wrong", [{"deferred_resize_policy": "maybe"}, {"deferred_resize_deadline_s": -1}])
def test_nonsense_settings_are_refused(wrong: Object) -> None:
    with pytest.raises(ValueError, match="deferred resize"):
        SchedulerConfig(**wrong)
