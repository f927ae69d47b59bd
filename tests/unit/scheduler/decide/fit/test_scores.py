"""Scores of nodes: whole numbers, as Kubernetes rounds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scheduling import node, pod

from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.rules import MOST_ALLOCATED, Rules
from podfit.scheduler.decide.fit.scores import (
    allocation,
    allocation_of,
    preferred_affinity,
    scaled,
    soft_taints,
    stretched,
)
from podfit.scheduler.decide.pod.pods import PodShape, shape_of

ALL = np.array([True, True, True])


def shape(**spec: object) -> PodShape:
    return shape_of(pod("p", cpu="1", memory="1Gi", **spec), None)


def cluster(*nodes: object) -> Snapshot:
    snapshot = Snapshot()
    for candidate in nodes:
        snapshot.put_node(candidate)  # type: ignore[arg-type]
    return snapshot


def test_an_emptier_node_is_better_and_a_fuller_one_where_rules_say_so() -> None:
    has, empty, full = [4000, 8 << 30], [0, 0], [2000, 4 << 30]
    spread, packed = Rules(), Rules(strategy=MOST_ALLOCATED)
    assert allocation_of(shape(), has, empty, empty, spread) > allocation_of(shape(), has, full, full, spread)
    assert allocation_of(shape(), has, empty, empty, packed) < allocation_of(shape(), has, full, full, packed)


amounts = st.lists(st.integers(0, 64_000), min_size=6, max_size=6)


@given(amounts, st.sampled_from([Rules(), Rules(strategy=MOST_ALLOCATED), Rules(fit_weight=3, balanced_weight=2)]))
def test_one_node_scores_as_it_does_among_others(drawn: list[int], rules: Rules) -> None:
    has, requested, nonzero = drawn[:2], drawn[2:4], drawn[4:]
    among = [np.array([[item, 1], [other, 1]]) for item, other in (has, requested, nonzero)]
    assert allocation(shape(), *among, rules)[0] == allocation_of(shape(), has, requested, nonzero, rules)


def test_scores_are_relative_to_the_best_of_the_nodes_that_fit() -> None:
    raw = np.array([1, 2, 4])
    assert scaled(raw, ALL).tolist() == [25, 50, 100]
    assert scaled(raw, ALL, reverse=True).tolist() == [75, 50, 0]
    assert scaled(raw, np.array([True, True, False])).tolist()[:2] == [50, 100]
    assert stretched(np.array([3, 4, 5]), ALL).tolist() == [0, 50, 100]


@pytest.mark.parametrize("same", [0, 7])
def test_a_score_that_all_nodes_share_ranks_none(same: int) -> None:
    raw = np.array([same, same, same])
    assert set(stretched(raw, ALL).tolist()) == {0}
    assert len(set(scaled(raw, ALL).tolist())) == 1


def test_weights_of_the_node_preferences_that_hold_add_up() -> None:
    def preference(weight: int, zone: str) -> dict[str, object]:
        match = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        return {"weight": weight, "preference": {"matchExpressions": [match]}}

    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [preference(5, "x"), preference(2, "x")]}
    snapshot = cluster(node("a", zone="x"), node("b", zone="y"))
    rows = [snapshot.rows["a"], snapshot.rows["b"]]
    wants = shape(affinity={"nodeAffinity": preferred})
    assert preferred_affinity(snapshot, wants, rows).tolist() == [7, 0]


def test_only_soft_taints_that_the_pod_does_not_tolerate_count() -> None:
    taints = [{"key": "k", "value": "v", "effect": effect} for effect in ("PreferNoSchedule", "NoSchedule")]
    snapshot = cluster(node("a", taints=taints), node("b"))
    counts = soft_taints(snapshot, shape())
    assert counts is not None
    assert [int(counts[snapshot.taints[snapshot.rows[name]]]) for name in "ab"] == [1, 0]
    assert soft_taints(snapshot, shape(tolerations=[{"operator": "Exists"}])) is None
    assert soft_taints(cluster(node("b")), shape()) is None
