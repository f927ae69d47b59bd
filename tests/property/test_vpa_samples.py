"""Properties of recommendations: without samples there is none, and time alone changes no number."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.estimates import estimate_vpas
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState
from podfit.vpa.recommender.decide.histograms.container import OomRefused
from podfit.vpa.recommender.decide.histograms.estimate import Estimate

START = 1_700_000_000
CONTAINERS, PODS = ("a", "b", "c"), ("p", "q")
Event = tuple[str, str, str, int, int]

events = st.lists(
    st.tuples(
        st.sampled_from(["cpu", "memory", "oom"]),
        st.sampled_from(PODS),
        st.sampled_from(CONTAINERS),
        st.integers(-5, 10**10),
        st.integers(0, 12 * 86400),
    ),
    max_size=30,
)
policies = st.lists(
    st.fixed_dictionaries(
        {"containerName": st.sampled_from(("a", "b", "*"))},
        optional={
            "mode": st.sampled_from(["Auto", "Off"]),
            "controlledResources": st.lists(st.sampled_from(["cpu", "memory"]), unique=True),
        },
    ),
    max_size=2,
)


def cluster_of(policy: list[Any], in_arrays: bool) -> ClusterState:
    config = Config()
    cluster = ClusterState(config, Fleet(config) if in_arrays else None)
    spec = {"resourcePolicy": {"containerPolicies": policy}}
    cluster.add_vpa({"metadata": {"namespace": "n", "name": "v"}, "spec": spec}, LabelSelector.parse("app=x"))
    for number, pod in enumerate(PODS):
        cluster.add_pod(("n", pod), {"app": "x", "revision": str(number)}, "Running")
        for container in CONTAINERS:
            cluster.add_container(("n", pod), container)
    cluster.stamp_created(START)
    return cluster


def feed(cluster: ClusterState, found: list[Event]) -> set[tuple[str, str]]:
    """The containers and resources for which a sample was accepted."""
    known: set[tuple[str, str]] = set()
    for kind, pod, container, value, after in found:
        if kind == "oom":
            try:
                cluster.record_oom(("n", pod), container, START + after, max(value, 0))
                known.add((container, "memory"))
            except OomRefused:
                pass
        elif (cluster.add_cpu if kind == "cpu" else cluster.add_memory)(("n", pod), container, value, START + after):
            known.add((container, kind))
    return known


def sizes(cluster: ClusterState) -> dict[str, Estimate]:
    return estimate_vpas(cluster, cluster.vpas.values())["n", "v"]


@settings(max_examples=150)
@given(found=events, policy=policies, in_arrays=st.booleans())
def test_only_what_has_a_sample_gets_a_size(found: list[Event], policy: list[Any], in_arrays: bool) -> None:
    cluster = cluster_of(policy, in_arrays)
    known = feed(cluster, found)
    given_sizes = {(name, resource) for name, item in sizes(cluster).items() for resource in item.target}
    assert given_sizes <= known
    merged = cluster.for_recommendation(cluster.vpas["n", "v"])
    assert given_sizes == {
        (name, resource) for name, resource in known if name in merged and resource in merged[name].controlled
    }


@settings(max_examples=100)
@given(
    found=events,
    policy=policies,
    in_arrays=st.booleans(),
    pauses=st.lists(st.integers(0, 40 * 86400), min_size=1, max_size=4),
)
def test_without_new_samples_time_changes_no_size(
    found: list[Event], policy: list[Any], in_arrays: bool, pauses: list[int]
) -> None:
    cluster = cluster_of(policy, in_arrays)
    feed(cluster, found)
    now = float(START + max((after for *_, after in found), default=0))
    running = [("n", pod) for pod in PODS]
    # Samples too old beside newer ones are dropped in the first pass; after it no number may change.
    cluster.collect_garbage(now, running)
    before = sizes(cluster)
    for pause in pauses:
        now += pause
        cluster.collect_garbage(now, running)
        cluster.expire_initial(now)
        assert sizes(cluster) == before
