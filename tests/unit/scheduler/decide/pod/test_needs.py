"""The resources that pods use on a node, and those counted when nodes are compared."""

from typing import Any

import pytest

from podfit.scheduler.decide.pod.needs import needs_of

MI = 1024 * 1024


def containers(*requests: dict[str, str] | None) -> list[dict[str, Any]]:
    return [
        {"name": f"c{number}", "resources": {} if item is None else {"requests": item}}
        for number, item in enumerate(requests)
    ]


@pytest.mark.parametrize(
    ("spec", "taken", "counted"),
    [
        ({"containers": containers(None)}, {}, (100, 200 * MI)),
        ({"containers": containers(None, None)}, {}, (200, 400 * MI)),
        ({"containers": containers({"cpu": "500m"}, None)}, {"cpu": 500}, (600, 400 * MI)),
        ({"containers": containers({"cpu": "500m", "memory": "1Mi"})}, {"cpu": 500, "memory": MI}, (500, MI)),
        ({"containers": containers({"cpu": "0"})}, {}, (0, 200 * MI)),
        (
            {"containers": containers({"cpu": "50m"}), "initContainers": containers(None)},
            {"cpu": 50},
            (100, 200 * MI),
        ),
        (
            {"containers": containers(None, None), "resources": {"requests": {"cpu": "1"}}},
            {"cpu": 1000},
            (1000, 400 * MI),
        ),
    ],
)
def test_each_silent_container_counts_for_something_when_nodes_are_compared(
    spec: dict[str, Any], taken: dict[str, int], counted: tuple[int, int]
) -> None:
    needs = needs_of({"metadata": {"name": "p"}, "spec": spec}, use_status=False)
    assert (needs.amounts, (needs.nonzero_cpu, needs.nonzero_memory)) == (taken, counted)
