"""A cluster in arrays, with pods, labels and aggregates that appear and disappear between scrapes."""

from __future__ import annotations

import pytest
from tests.support.cluster.scrapes import Scrape, recommend_all

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, UnknownTarget

START = 1_700_000_000
VPA = {"metadata": {"namespace": "ns", "name": "vpa"}, "spec": {"targetRef": {"kind": "Deployment", "name": "web"}}}


def cluster_of(*pods: str, config: Config | None = None) -> ClusterState:
    config = config or Config()
    cluster = ClusterState(config, Fleet(config))
    cluster.add_vpa(VPA, LabelSelector.parse("app=web"))
    for name in pods:
        cluster.add_pod(("ns", name), {"app": "web"}, "Running")
        cluster.add_container(("ns", name), "app")
    return cluster


def scrape(cluster: ClusterState, instant: int, **usage: tuple[int, int]) -> Scrape:
    collected = Scrape()
    for pod, sample in usage.items():
        collected.add(cluster, ("ns", pod), {"app": sample}, instant)
    assert cluster.fleet is not None
    collected.ingest(cluster.fleet)
    return collected


def samples(cluster: ClusterState) -> dict[str, int]:
    return {key.labels: state.count for key, state in cluster.aggregates.items()}


def test_replicas_share_one_aggregate() -> None:
    cluster = cluster_of("a", "b")
    scrape(cluster, START, a=(100, 10**8), b=(300, 10**9))
    assert samples(cluster) == {"app=web": 2}
    outcome = recommend_all(cluster, None)["ns", "vpa"]
    assert outcome.estimates["app"].target["cpu"] > 300


def test_samples_of_unknown_pods_are_counted_not_raised() -> None:
    cluster = cluster_of("a")
    assert scrape(cluster, START, a=(100, 10**8), ghost=(1, 1)).unknown == 1
    assert samples(cluster) == {"app=web": 1}


def test_new_labels_lead_samples_to_a_new_aggregate() -> None:
    cluster = cluster_of("a")
    scrape(cluster, START, a=(100, 10**8))
    cluster.add_pod(("ns", "a"), {"app": "web", "hash": "2"}, "Running")
    scrape(cluster, START + 60, a=(100, 10**8))
    assert samples(cluster) == {"app=web": 1, "app=web,hash=2": 1}


def test_a_container_that_outlives_its_aggregate_starts_a_new_one() -> None:
    cluster = cluster_of("a", config=Config(expire_samples_without_metrics=True))
    scrape(cluster, START, a=(100, 10**8))
    later = START + 9 * 86400
    cluster.collect_garbage(later, [("ns", "a")])
    assert samples(cluster) == {}
    scrape(cluster, later, a=(200, 10**8))
    assert samples(cluster) == {"app=web": 1}
    assert recommend_all(cluster, None)["ns", "vpa"].estimates["app"].target["cpu"] > 200


def test_deleted_pods_leave_their_history() -> None:
    cluster = cluster_of("a")
    scrape(cluster, START, a=(100, 10**8))
    cluster.delete_pod(("ns", "a"))
    assert samples(cluster) == {"app=web": 1}
    with pytest.raises(UnknownTarget):
        cluster.add_cpu(("ns", "a"), "app", 100, START + 60)


def test_repeated_negative_and_late_samples_are_refused() -> None:
    cluster = cluster_of("a")
    scrape(cluster, START, a=(100, 10**8))
    for instant, cpu in ((START, 100), (START - 60, 100), (START + 60, -5)):
        scrape(cluster, instant, a=(cpu, 10**8))
    assert samples(cluster) == {"app=web": 1}


@pytest.mark.parametrize("survives", [False, True])
def test_history_survives_a_missing_target_only_if_so_configured(survives: bool) -> None:
    cluster = cluster_of("a", config=Config(survive_missing_target=survives))
    scrape(cluster, START, a=(500, 10**9))
    checkpoint = {
        "metadata": {"namespace": "ns"},
        "spec": {"vpaObjectName": "vpa", "containerName": "old"},
        "status": next(iter(cluster.merged(cluster.vpas["ns", "vpa"]).values())).save(START),
    }
    cluster.load_checkpoint(checkpoint)
    cluster.add_vpa(VPA, None, "Cannot read targetRef")
    cluster.add_vpa(VPA, LabelSelector.parse("app=web"))
    assert ("old" in recommend_all(cluster, None)["ns", "vpa"].estimates) is survives


def test_empty_aggregates_age_from_when_they_were_first_seen_if_so_configured() -> None:
    cluster = cluster_of("a", config=Config(expire_samples_without_metrics=True))
    cluster.stamp_created(START)
    cluster.collect_garbage(START + 86400, [("ns", "a")])
    assert samples(cluster) == {"app=web": 0}
    cluster.collect_garbage(START + 8 * 86400, [("ns", "a")])
    assert samples(cluster) == {}
