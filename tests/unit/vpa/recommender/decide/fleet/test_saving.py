"""Checkpoints of many autoscalers at once."""

from __future__ import annotations

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.saving import statuses_of
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState

START, DAY_S, GB = 1_700_000_000.0, 86400.0, 10**9


def cluster(arrays: bool) -> ClusterState:
    """Two autoscalers: one whose pods have different labels, so that a container has several aggregates."""
    config = Config()
    made = ClusterState(config, Fleet(config) if arrays else None)
    for name in ("web", "db", "none"):
        obj = {"metadata": {"namespace": "ns", "name": name}, "spec": {}}
        made.add_vpa(obj, LabelSelector.parse(f"app={name}"))
    for number, (app, hash) in enumerate((("web", "1"), ("web", "2"), ("db", "1"))):
        id = ("ns", f"p{number}")
        made.add_pod(id, {"app": app, "hash": hash}, "Running")
        for container in ("app", "sidecar"):
            made.add_container(id, container)
            for day in range(3):
                made.add_cpu(id, container, 100 * (number + 1), START + day * DAY_S)
                made.add_memory(id, container, GB * (number + 1), START + day * DAY_S)
    return made


def test_all_at_once_is_one_by_one() -> None:
    fleet, single = cluster(True), cluster(False)
    vpas = list(fleet.vpas.values())
    now = START + 2.5 * DAY_S
    found = dict(zip(fleet.vpas, statuses_of(fleet, vpas, now), strict=True))
    for id, vpa in single.vpas.items():
        states = sorted(single.for_checkpoint(vpa, now).items())
        assert found[id] == {name: state.save(now) for name, state in states}
    assert list(found["ns", "web"]) == ["app", "sidecar"] and found["ns", "none"] == {}


def test_the_peak_of_a_window_that_lasts_is_left_out() -> None:
    fleet = cluster(True)
    [during] = statuses_of(fleet, [fleet.vpas["ns", "db"]], START + 2.5 * DAY_S)
    [after] = statuses_of(fleet, [fleet.vpas["ns", "db"]], START + 10 * DAY_S)
    assert during["app"]["memoryHistogram"]["totalWeight"] < after["app"]["memoryHistogram"]["totalWeight"]


def test_saving_changes_nothing() -> None:
    fleet = cluster(True)
    vpas = list(fleet.vpas.values())
    assert statuses_of(fleet, vpas, START + 2.5 * DAY_S) == statuses_of(fleet, vpas, START + 2.5 * DAY_S)


def test_a_cluster_without_aggregates_has_no_statuses() -> None:
    config = Config()
    empty = ClusterState(config, Fleet(config))
    vpa = empty.add_vpa({"metadata": {"namespace": "ns", "name": "v"}, "spec": {}}, LabelSelector.parse(""))
    assert statuses_of(empty, [vpa], START) == [{}]
