"""Raw estimates of all autoscalers at once."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.estimates import estimate_vpas
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState
from podfit.vpa.recommender.decide.histograms.estimate import Estimate

START = 1_700_000_000


def cluster(arrays: bool, *policies: dict[str, Any], config: Config | None = None) -> ClusterState:
    """Containers app and sidecar have samples of both resources, fresh has none, thirsty of CPU only."""
    config = config or Config()
    made = ClusterState(config, Fleet(config) if arrays else None)
    spec = {"resourcePolicy": {"containerPolicies": list(policies)}} if policies else {}
    made.add_vpa({"metadata": {"namespace": "ns", "name": "web"}, "spec": spec}, LabelSelector.parse("app=web"))
    made.add_pod(("ns", "a"), {"app": "web"}, "Running")
    for name in ("app", "sidecar", "fresh", "thirsty"):
        made.add_container(("ns", "a"), name)
        if name != "fresh":
            made.add_cpu(("ns", "a"), name, 500, START)
        if name in ("app", "sidecar"):
            made.add_memory(("ns", "a"), name, 10**9, START)
    return made


def estimates(*given: Any, **more: Any) -> dict[str, Estimate]:
    """The same with and without a fleet."""
    found = [
        estimate_vpas(made, made.vpas.values())
        for made in (cluster(arrays, *given, **more) for arrays in (False, True))
    ]
    assert found[0] == found[1]
    return found[1]["ns", "web"]


def test_containers_without_samples_are_left_out_and_so_are_resources() -> None:
    found = estimates()
    assert found.keys() == {"app", "sidecar", "thirsty"}
    assert found["thirsty"].target.keys() == {"cpu"} and found["app"].target.keys() == {"cpu", "memory"}


def test_with_the_flag_everything_gets_a_size() -> None:
    found = estimates(config=Config(recommend_without_samples=True))
    assert all(item.target.keys() == {"cpu", "memory"} for item in found.values()) and len(found) == 4


@pytest.mark.parametrize(
    ("policy", "resources"),
    [({"controlledResources": ["memory"]}, {"memory"}), ({"controlledResources": []}, set()), ({"mode": "Off"}, None)],
)
def test_the_policy_of_a_container_decides_what_is_estimated(policy: dict[str, Any], resources: Any) -> None:
    found = estimates({"containerName": "app", **policy})
    assert (found["app"].target.keys() if "app" in found else None) == resources
    assert "sidecar" in found
