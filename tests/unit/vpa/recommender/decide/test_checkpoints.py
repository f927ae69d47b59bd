"""Which checkpoint objects are written for an autoscaler."""

from __future__ import annotations

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.checkpoints import (
    checkpoint_name,
    checkpoints_of,
    checkpoints_of_all,
    status_patch,
)
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState

START = 1_700_000_000
VPA = {"metadata": {"namespace": "ns", "name": "web"}, "spec": {}}


def cluster(config: Config, fleet: Fleet | None = None) -> ClusterState:
    made = ClusterState(config, fleet)
    made.add_vpa(VPA, LabelSelector.parse("app=web"))
    made.add_pod(("ns", "a"), {"app": "web"}, "Running")
    for name in ("sidecar", "app"):
        made.add_container(("ns", "a"), name)
        made.add_cpu(("ns", "a"), name, 100, START)
    return made


def test_each_container_has_a_checkpoint_named_after_the_autoscaler_and_itself() -> None:
    seen = cluster(Config())
    made = checkpoints_of(seen, seen.vpas["ns", "web"], START + 60)
    assert [obj["metadata"]["name"] for obj in made] == ["web-app", "web-sidecar"]
    assert [obj["spec"] for obj in made] == [
        {"vpaObjectName": "web", "containerName": "app"},
        {"vpaObjectName": "web", "containerName": "sidecar"},
    ]
    assert checkpoint_name("web", "app") == "web-app"


def test_a_fleet_writes_the_same_checkpoints_as_single_objects() -> None:
    config = Config()
    alone, fleet = cluster(config), cluster(config, Fleet(config))
    found = [checkpoints_of_all(item, [item.vpas["ns", "web"]], START + 60) for item in (alone, fleet)]
    assert found[0] == found[1]


def test_the_status_is_replaced_in_the_object() -> None:
    assert status_patch({"status": {"version": "v3"}}) == [
        {"op": "replace", "path": "/status", "value": {"version": "v3"}}
    ]
