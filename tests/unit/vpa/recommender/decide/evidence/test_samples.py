"""Which containers have samples, and which lack them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.autoscalers import recommended, vpa

from podfit.api.selectors import LabelSelector
from podfit.vpa.model.times import NEVER
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.evidence.samples import (
    NOTHING_MISSING,
    Missing,
    Span,
    kept_containers,
    missing_samples,
    spans_of,
)
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, estimate_all

START = 1_700_000_000.0


def cluster(*containers: str, sampled: tuple[str, ...] = (), **spec: Any) -> tuple[ClusterState, Vpa]:
    made = ClusterState(Config())
    scaler = made.add_vpa(vpa(recommended("app", {"cpu": "1"}), **spec), LabelSelector.parse("app=web"))
    made.add_pod(("ns", "p"), {"app": "web"}, "Running")
    for name in containers:
        made.add_container(("ns", "p"), name)
        if name in sampled:
            made.add_cpu(("ns", "p"), name, 500, START)
            made.add_memory(("ns", "p"), name, 10**9, START)
    return made, scaler


def missing(made: ClusterState, scaler: Vpa, stale_before: float = START, lent: tuple[str, ...] = ()) -> Missing:
    sizes: dict[str, Estimate] = estimate_all(made.for_recommendation(scaler), made.config)
    return missing_samples(made, scaler, spans_of(scaler), sizes, frozenset(), stale_before, lent)


def test_a_span_holds_all_samples_and_checkpoints_are_not_new() -> None:
    state = AggregateState(Config())
    state.add_cpu(100, START)
    state.add_cpu(100, START + 60)
    assert Span().plus(state, saved=False) == Span(START, START + 60, 2, START + 60)
    assert Span().plus(state, saved=True) == Span(START, START + 60, 2, NEVER)
    assert Span().plus(AggregateState(Config()), saved=False) == Span()


def test_containers_switched_off_have_no_span() -> None:
    off = {"containerPolicies": [{"containerName": "app", "mode": "Off"}]}
    _, scaler = cluster("app", "sidecar", resourcePolicy=off)
    assert spans_of(scaler).keys() == {"sidecar"}


def test_nothing_is_missing_where_all_have_samples() -> None:
    assert missing(*cluster("app", sampled=("app",))) is NOTHING_MISSING


def test_a_container_without_samples_lacks_what_is_controlled() -> None:
    assert missing(*cluster("app", "fresh", sampled=("app",))).never == (("fresh", ("cpu", "memory")),)
    only = {"containerPolicies": [{"containerName": "*", "controlledResources": ["memory"]}]}
    found = missing(*cluster("fresh", "sidecar", sampled=("sidecar",), resourcePolicy=only))
    assert found.never == (("fresh", ("memory",)),)


def test_samples_that_stopped_are_named_with_the_last_one() -> None:
    found = missing(*cluster("app", sampled=("app",)), stale_before=START + 600)
    assert found.stopped == (("app", START),)
    assert found.stopped_message == (
        "No sample of container app has arrived since 2023-11-14T22:13:20Z: its recommendation is frozen."
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "no recommendation can be given"),
        ({"kept": frozenset(("a",))}, "its recommendation is frozen"),
        ({"lent": frozenset(("a",))}, "its recommendation comes from similar containers"),
    ],
)
def test_consequences_of_missing_samples_are_named(more: dict[str, Any], words: str) -> None:
    message = Missing((("a", ("cpu", "memory")),), **more).never_message("noon")
    assert message == f"No sample of container a has arrived since noon: {words}."


def kept(scaler: Vpa, fresh_after: float, config: Config | None = None, **more: Any) -> frozenset[str]:
    given = {"killed": (), "fetching": False, **more}
    return kept_containers(scaler, spans_of(scaler), fresh_after, config or Config(), **given)


def test_published_sizes_stay_until_there_is_a_fresh_sample_or_a_kill() -> None:
    _, scaler = cluster("app", sampled=("app",))
    assert kept(scaler, START + 60) == {"app"}
    assert kept(scaler, START - 60) == frozenset()
    assert kept(scaler, START + 60, killed=("app",)) == frozenset()
    assert kept(scaler, START - 60, fetching=True) == {"app"}
    assert kept(scaler, START + 60, Config(expire_samples_without_metrics=True)) == frozenset()


def test_the_smallest_size_may_come_from_no_samples_and_is_not_kept() -> None:
    _, scaler = cluster("app")
    smallest = recommended("app", {"cpu": "25m", "memory": "250Mi"})
    assert kept(scaler, START) == {"app"}
    scaler.object = vpa(smallest)
    assert kept(scaler, START) == frozenset()
