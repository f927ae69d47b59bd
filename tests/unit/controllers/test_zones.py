"""When pods of lost nodes are evicted, and when a network failure is assumed instead."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.controllers.nodes.lifecycle import NOT_READY, wanted_taints
from podfit.controllers.nodes.zones import EVICT, HOLD, NEVER, Zones, zone_of


def node(name: str, ready: bool = True, zone: str = "a", taints: list[dict[str, str]] | None = None) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone}
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}, "status": status}


def cluster(ready: int, lost: int, zone: str = "a") -> list[dict[str, Any]]:
    return [node(f"{zone}{number}", number < ready, zone) for number in range(ready + lost)]


def counted(nodes: list[dict[str, Any]]) -> Zones:
    zones = Zones()
    for candidate in nodes:
        zones.put(candidate["metadata"]["name"], candidate)
    return zones


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (cluster(0, 1), NEVER),
        (cluster(0, 7), NEVER),
        (cluster(1, 1), EVICT),
        (cluster(1, 2), EVICT),
        (cluster(2, 3), HOLD),
        (cluster(3, 3), EVICT),
        (cluster(20, 40), EVICT),
        (cluster(0, 5) + cluster(3, 0, "b"), EVICT),
        (cluster(2, 3) + cluster(9, 0, "b"), HOLD),
        (cluster(0, 5) + cluster(0, 3, "b"), NEVER),
    ],
)
def test_lost_nodes_are_evicted_unless_most_are_lost(nodes: list[dict[str, Any]], expected: str) -> None:
    assert counted(nodes).decide(zone_of(node("x"))) == expected


def test_lost_nodes_are_named_when_something_else_is_decided_about_them() -> None:
    zones = counted(cluster(0, 3))
    assert zones.changed_nodes() == ["a0", "a1", "a2"]
    assert zones.changed_nodes() == []
    zones.put("a0", node("a0"))
    assert zones.changed_nodes() == ["a1", "a2"]
    zones.put("a1", node("a1"))
    assert zones.changed_nodes() == []
    for number in range(3, 6):
        zones.put(f"a{number}", node(f"a{number}", ready=False))
    assert zones.changed_nodes() == ["a2", "a3", "a4", "a5"]


nodes_at_random = st.builds(node, st.sampled_from("abcdefgh"), st.booleans(), st.sampled_from("xy"))


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.none() | nodes_at_random)))
def test_counting_as_nodes_change_is_counting_them_at_the_end(changes: list[tuple[str, Any]]) -> None:
    zones, nodes = Zones(), {}
    for name, changed in changes:
        zones.put(name, changed)
        nodes[name] = changed
    whole = [{**obj, "metadata": {**obj["metadata"], "name": name}} for name, obj in nodes.items() if obj]
    for zone in ("x", "y"):
        asked = zone_of(node("n", zone=zone))
        assert zones.decide(asked) == counted(whole).decide(asked)
    assert set(zones.changed_nodes()) == set(counted(whole).changed_nodes())


@pytest.mark.parametrize(
    ("policy", "had", "expected"),
    [
        (EVICT, False, {"NoSchedule", "NoExecute"}),
        (HOLD, False, {"NoSchedule"}),
        (HOLD, True, {"NoSchedule", "NoExecute"}),
        (NEVER, True, {"NoSchedule"}),
    ],
)
def test_a_lost_node_is_always_kept_free_of_new_pods(policy: str, had: bool, expected: set[str]) -> None:
    old = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}] if had else []
    taints = wanted_taints(node("x", ready=False, taints=old), "now", policy)
    assert {taint["effect"] for taint in taints} == expected


def test_a_taint_has_the_time_it_was_added() -> None:
    cordoned = node("x", taints=[{"key": "own", "effect": "NoSchedule"}])
    cordoned["spec"]["unschedulable"] = True
    found = wanted_taints(cordoned, "now")
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "now"}
    assert found == [{"key": "own", "effect": "NoSchedule"}, taint]
    cordoned["spec"]["taints"] = found
    assert wanted_taints(cordoned, "later") == found


def test_a_node_that_never_reported_loses_the_taint_of_its_registration() -> None:
    registered = {"metadata": {"name": "x"}, "spec": {"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}}
    assert wanted_taints(registered, "now") == []
