"""The quality metrics: samples against recommendations, whole scrapes at a time, with the counts of single
observations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState
from podfit.vpa.recommender.intake.usage import scraped
from podfit.vpa.recommender.quality import CPU_BUCKETS, RELATIVE_BUCKETS, QualityMeasures
from podfit.vpa.serve.measures import ResourceReads, exposition
from podfit.vpa.serve.requests import template
from podfit.vpa.serve.tally import CountedMetric

NOW = 1_700_000_000.0
STAMP = "2023-11-14T22:13:20Z"


class World:
    def __init__(self, policy: dict[str, Any] | None = None) -> None:
        self.registry = CollectorRegistry()
        self.quality = QualityMeasures(self.registry)
        self.fleet = Fleet(Config())
        self.cluster = ClusterState(Config(), self.fleet)
        spec: dict[str, Any] = {"updatePolicy": {"updateMode": "Recreate"}}
        if policy:
            spec["resourcePolicy"] = {"containerPolicies": [{"containerName": "main", **policy}]}
        self.cluster.add_vpa({"metadata": {"namespace": "n", "name": "v"}, "spec": spec}, LabelSelector.parse("app=a"))
        self.cluster.add_pod(("n", "p"), {"app": "a"}, "Running")
        self.cluster.add_container(("n", "p"), "main")

    def recommend(self, cpu: str, memory: str) -> None:
        sizes = {"cpu": cpu, "memory": memory}
        entry = {"containerName": "main", "uncappedTarget": {name: value for name, value in sizes.items() if value}}
        self.quality.recommended(self.cluster, {("n", "v"): {"containerRecommendations": [entry]}})

    def scrape(self, cpu: str, memory: str) -> None:
        item = {
            "metadata": {"namespace": "n", "name": "p"},
            "timestamp": STAMP,
            "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": memory}}],
        }
        self.quality.scraped(scraped([item], self.cluster, NOW), self.fleet)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"vpa_quality_{name}", labels)


def test_a_sample_is_compared_with_the_standing_recommendation() -> None:
    world = World()
    world.recommend("200m", "100M")
    world.scrape("50m", "150M")
    both = {"update_mode": "Recreate", "recommendation_missing": "false"}
    assert world.value("cpu_recommendation_over_usage_diffs_cores_sum", **both) == pytest.approx(0.15)
    assert world.value("mem_recommendation_lower_equal_usage_diffs_bytes_sum", **both, is_oom="false") == 50e6
    assert world.value("cpu_recommendations_cores_sum", update_mode="Recreate") == pytest.approx(0.2)
    assert world.value("mem_recommendations_bytes_count", update_mode="Recreate", is_oom="false") == 1
    relative = {"update_mode": "Recreate", "resource": "cpu", "is_oom": "false"}
    assert world.value("usage_recommendation_relative_diffs_sum", **relative) == pytest.approx(-0.75)


def test_without_a_recommendation_usage_counts_as_missing_one() -> None:
    world = World()
    world.quality.recommended(world.cluster, {})
    world.scrape("50m", "150M")
    labels = {"update_mode": "Recreate", "resource": "cpu", "is_oom": "false"}
    assert world.value("usage_sample_missing_recommendation_count", **labels) == 1
    missing = {"update_mode": "Recreate", "recommendation_missing": "true"}
    assert world.value("cpu_recommendation_lower_equal_usage_diffs_cores_sum", **missing) == pytest.approx(0.05)
    assert world.value("usage_recommendation_relative_diffs_count", **labels) is None


def test_a_resource_that_is_not_controlled_counts_as_missing() -> None:
    world = World()
    world.recommend("200m", "")
    world.scrape("50m", "150M")
    labels = {"update_mode": "Recreate", "is_oom": "false"}
    assert world.value("usage_sample_missing_recommendation_count", **labels, resource="memory") == 1
    assert world.value("usage_sample_missing_recommendation_count", **labels, resource="cpu") is None


@pytest.mark.parametrize("repeated", [True, False])
def test_samples_that_are_refused_are_not_compared(repeated: bool) -> None:
    world = World()
    world.recommend("200m", "100M")
    state: Any = world.cluster.pod(("n", "p")).containers["main"]  # type: ignore[union-attr]
    state.last_cpu = NOW if repeated else NOW - 60
    world.scrape("50m", "-1")
    labels = {"update_mode": "Recreate", "resource": "cpu", "is_oom": "false"}
    assert world.value("usage_recommendation_relative_diffs_count", **labels) == (None if repeated else 1)
    assert world.value("mem_recommendations_bytes_count", update_mode="Recreate", is_oom="false") is None


def test_a_container_that_is_switched_off_and_a_pod_without_autoscaler_are_not_compared() -> None:
    world = World({"mode": "Off"})
    world.recommend("200m", "100M")
    world.scrape("50m", "150M")
    assert b"vpa_quality_cpu_recommendations_cores_count" not in exposition(world.registry)


def test_an_out_of_memory_event_is_recognized() -> None:
    world = World()
    world.recommend("200m", "100M")
    world.quality.ran_out(world.cluster.aggregate_of(("n", "p"), "main"), 300_000_000)
    labels = {"update_mode": "Recreate", "recommendation_missing": "false", "is_oom": "true"}
    assert world.value("mem_recommendation_lower_equal_usage_diffs_bytes_sum", **labels) == 200e6


def test_changes_of_a_recommendation_are_relative_to_the_older_one() -> None:
    world = World()
    world.recommend("200m", "100M")
    labels = {"update_mode": "Recreate", "vpa_size_log2": "0"}
    assert world.value("relative_recommendation_changes_count", **labels, resource="cpu") is None
    world.recommend("300m", "100M")
    assert world.value("relative_recommendation_changes_sum", **labels, resource="cpu") == pytest.approx(0.5)
    assert world.value("relative_recommendation_changes_bucket", **labels, resource="memory", le="0.0") == 1


def test_buckets_are_upstreams() -> None:
    assert CPU_BUCKETS[0] == 0.01 and CPU_BUCKETS[-1] == 655.36 and len(CPU_BUCKETS) == 17
    assert RELATIVE_BUCKETS[0] == -1.0 and RELATIVE_BUCKETS[-1] == 100.0 and len(RELATIVE_BUCKETS) == 29


@given(st.lists(st.lists(st.floats(-10, 1000), max_size=20), max_size=4))
def test_a_tally_counts_as_a_histogram_does(scrapes: list[list[float]]) -> None:
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    single = Histogram("h", "…", buckets=RELATIVE_BUCKETS, registry=theirs)
    tally = CountedMetric(ours, "h", "…", (), RELATIVE_BUCKETS)
    tally.observe((), np.zeros(1))
    single.observe(0.0)
    for values in scrapes:
        tally.observe((), values)
        for value in values:
            single.observe(value)
    for border in (*map(str, map(float, RELATIVE_BUCKETS)), "+Inf"):
        labels = {"le": border}
        assert ours.get_sample_value("h_bucket", labels) == theirs.get_sample_value("h_bucket", labels)
    assert ours.get_sample_value("h_count") == theirs.get_sample_value("h_count")


def test_counters_keep_upstreams_names_and_are_counters() -> None:
    registry = CollectorRegistry()
    registry.register(ResourceReads())
    text = exposition(registry)
    assert b"# TYPE vpa_resources_get_resources_count counter\n" in text
    assert b'vpa_resources_get_resources_count{source="Pod.Spec.Containers"}' in text


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/api/v1/pods", "/api/v1/pods"),
        ("/api/v1/namespaces/a/pods/b/resize", "/api/v1/namespaces/{namespace}/pods/{name}/resize"),
        ("/api/v1/namespaces/a", "/api/v1/namespaces/{name}"),
        ("/api/v1/nodes/n", "/api/v1/nodes/{name}"),
        ("/apis/apps/v1/namespaces/a/deployments", "/apis/apps/v1/namespaces/{namespace}/deployments"),
        ("/apis/metrics.k8s.io/v1beta1/pods", "/apis/metrics.k8s.io/v1beta1/pods"),
    ],
)
def test_requests_are_counted_by_path_without_names(path: str, shown: str) -> None:
    assert template(path) == shown
