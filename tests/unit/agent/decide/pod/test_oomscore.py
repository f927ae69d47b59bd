"""Which processes the kernel kills first when the node is out of memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.decide.pod.oomscore import oom_score_adj
from podfit.api.pods.resources import BEST_EFFORT, BURSTABLE, GUARANTEED

NODE = 1000 << 20


def container(name: str, mebibytes: int | None, **more: Any) -> dict[str, Any]:
    requests = {"memory": f"{mebibytes}Mi"} if mebibytes is not None else {"cpu": "1m"}
    return {"name": name, "resources": {"requests": requests}, **more}


def score(spec: dict[str, Any], name: str, qos: str = BURSTABLE) -> int:
    every = [*spec.get("initContainers", ()), *spec["containers"]]
    return oom_score_adj({"spec": spec}, next(entry for entry in every if entry["name"] == name), qos, NODE)


def test_classes_have_their_own_scores() -> None:
    spec = {"containers": [container("c", 100)]}
    assert [score(spec, "c", qos) for qos in (GUARANTEED, BEST_EFFORT, BURSTABLE)] == [-997, 1000, 900]
    assert score({**spec, "priority": 2_000_001_000}, "c") == -997


@pytest.mark.parametrize(("requested", "expected"), [(None, 999), (0, 999), (1, 999), (500, 500), (998, 3), (2000, 3)])
def test_the_more_a_container_requests_the_later_it_is_ended(requested: int | None, expected: int) -> None:
    assert score({"containers": [container("c", requested)]}, "c") == expected


def test_a_sidecar_goes_no_sooner_than_the_regular_container_that_requests_least() -> None:
    def spec(own: int) -> dict[str, Any]:
        sidecars = [container("side", own, restartPolicy="Always")]
        return {"initContainers": sidecars, "containers": [container("small", 100), container("large", 500)]}

    assert score(spec(10), "side") == score(spec(10), "small") == 900
    assert score(spec(300), "side") == 700
    assert score({"containers": [container("c", None)], "initContainers": spec(10)["initContainers"]}, "side") == 990


def test_pod_level_requests_beyond_the_containers_are_shared_among_them() -> None:
    spec = {
        "resources": {"requests": {"memory": "500Mi"}},
        "initContainers": [container("side", 50, restartPolicy="Always")],
        "containers": [container("c", 100), container("d", None)],
    }
    # (500 - 150) / 3 each
    assert [score(spec, name) for name in ("side", "c", "d")] == [1000 - 166, 1000 - 216, 1000 - 116]


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=4), st.integers(0, 2000))
def test_burstable_containers_stay_between_the_other_classes(requests: list[int], own: int) -> None:
    spec = {
        "initContainers": [container("side", own, restartPolicy="Always")],
        "containers": [container(f"c{number}", entry) for number, entry in enumerate(requests)],
    }
    scores = [score(spec, listed["name"]) for listed in (*spec["initContainers"], *spec["containers"])]
    assert all(3 <= entry <= 999 for entry in scores)
    assert scores[0] <= max(scores[1:])
