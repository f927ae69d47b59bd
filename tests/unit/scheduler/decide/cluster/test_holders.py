"""Locations of pods that affect others: counts that are updated by one addition per pod."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.scheduling import HOST, REQUIRED, ZONE, node, pod

from podfit.api.selectors import EQUALS, LabelSelector, Requirement
from podfit.scheduler.decide.cluster.holders import MatchingPods
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.pod.pods import resident
from podfit.scheduler.decide.pod.terms import Matcher

NODES = ("a", "b", "c")


def of_app(app: str) -> MatchingPods:
    selector = LabelSelector((Requirement("app", EQUALS, (app,)),))
    return MatchingPods((Matcher(frozenset(("ns",)), None, selector),))


def cluster() -> Snapshot:
    snapshot = Snapshot()
    for name, zone in zip(NODES, ("x", "x", "y"), strict=True):
        snapshot.put_node(node(name, zone=zone))
    return snapshot


def counts(snapshot: Snapshot, tally: MatchingPods) -> dict[str, int]:
    by_row = snapshot.holders.count(tally).by_row
    return {name: int(by_row[snapshot.rows[name]]) for name in NODES}


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(NODES), st.sampled_from(["web", "db"])), max_size=20))
def test_a_count_that_is_kept_is_the_count_that_would_be_made_afresh(moves: list[tuple[int, str, str]]) -> None:
    kept, there = cluster(), dict[int, tuple[str, str]]()
    counts(kept, of_app("web"))
    for number, name, app in moves:
        if number in there:
            del there[number]
            kept.remove_pod(("ns", f"p{number}"))
        else:
            there[number] = name, app
            kept.put_pod(resident(pod(f"p{number}", on=name, app=app)))
    expected = {name: sum(where == (name, "web") for where in there.values()) for name in NODES}
    assert counts(kept, of_app("web")) == expected


def test_counts_are_summed_by_domain() -> None:
    snapshot = cluster()
    for number, name in enumerate(("a", "b", "b", "c")):
        snapshot.put_pod(resident(pod(f"p{number}", on=name, app="web")))
    counted = snapshot.holders.count(of_app("web"))
    assert sorted(counted.by_domain(ZONE).tolist()) == [0, 1, 3]
    assert sorted(counted.by_domain(HOST).tolist()) == [0, 1, 1, 2]


def test_terms_are_known_as_long_as_a_running_pod_carries_them() -> None:
    snapshot = cluster()
    assert snapshot.holders.selected_keys is None
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}
    carrier = pod("p", on="a", affinity={"podAntiAffinity": {REQUIRED: [term]}})
    snapshot.put_pod(resident(carrier))
    assert snapshot.holders.selected_keys == {"app"} and len(snapshot.holders.keep_away) == 1
    snapshot.remove_pod(("ns", "p"))
    assert snapshot.holders.selected_keys is None and not snapshot.holders.keep_away


def test_new_labels_of_a_namespace_make_old_counts_stale() -> None:
    snapshot = cluster()
    counted = snapshot.holders.count(of_app("web"))
    snapshot.holders.renamed()
    assert counted.stale and snapshot.holders.count(of_app("web")) is not counted
