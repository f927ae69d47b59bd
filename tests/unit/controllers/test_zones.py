"""When lost nodes are evicted, and when it is rather the network."""

from typing import Any

import pytest

from podfit.controllers.nodes.lifecycle import wanted_taints
from podfit.controllers.nodes.zones import EVICT, HOLD, NEVER, decide, zone_of


def node(name: str, ready: bool = True, zone: str = "a", taints: list[dict[str, str]] | None = None) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone}
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}, "status": status}


def cluster(ready: int, lost: int, zone: str = "a") -> list[dict[str, Any]]:
    return [node(f"{zone}{number}", number < ready, zone) for number in range(ready + lost)]


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
    assert decide(zone_of(node("x")), nodes) == expected


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
