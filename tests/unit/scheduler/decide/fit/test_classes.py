"""Classes of rows that are equal under default spread constraints have the same scores as their rows one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scheduling import HOST, ZONE, node, pod

from podfit.api.selectors import EQUALS, LabelSelector, Requirement
from podfit.scheduler.decide.cluster.holders import MatchingPods
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.classes import Classes
from podfit.scheduler.decide.fit.scores import MAX, spreading_by_default
from podfit.scheduler.decide.pod.owners import Owners
from podfit.scheduler.decide.pod.pods import resident
from podfit.scheduler.decide.pod.terms import Matcher, Spread

NAMES = tuple(f"n{number}" for number in range(6))
FAMILY = MatchingPods((Matcher(frozenset(("ns",)), None, LabelSelector((Requirement("app", EQUALS, ("a",)),))),))


def spreads() -> tuple[Spread, ...]:
    """Kubernetes' default constraints for the pods of one Service."""
    owners = Owners()
    owners.service(None, {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"selector": {"app": "a"}}})
    family = owners.family(pod("p"))
    assert family is not None and [spread.topology_key for spread in family.spreads] == [HOST, ZONE]
    return family.spreads


def cluster(zones: list[str]) -> Snapshot:
    snapshot = Snapshot()
    for name, zone in zip(NAMES, zones, strict=False):
        snapshot.put_node(node(name, zone=zone))
    return snapshot


def both(snapshot: Snapshot, classes: Classes, ranked: np.ndarray) -> tuple[list[int], list[int]]:
    """The scores by class, and those by row."""
    counted = snapshot.holders.count(FAMILY)
    assert classes.sync(ranked, [counted for _ in spreads()])
    by_domain = [counted.by_row if spread.topology_key == HOST else counted.by_domain(ZONE) for spread in spreads()]
    fits = ranked >= 0
    found = spreading_by_default(snapshot, list(zip(spreads(), by_domain, strict=True)), fits)
    return classes.scores(by_domain).tolist(), np.where(fits, found, 0).tolist()


zones = st.lists(st.sampled_from(["", "x", "y"]), min_size=1, max_size=len(NAMES))
moves = st.lists(st.tuples(st.integers(0, 9), st.integers(0, len(NAMES) - 1)), max_size=15)


@given(zones, moves, st.lists(st.booleans(), min_size=len(NAMES), max_size=len(NAMES)))
def test_a_row_scores_as_its_class(where: list[str], arrivals: list[tuple[int, int]], fitting: list[bool]) -> None:
    snapshot, there = cluster(where), set[int]()
    classes = Classes(snapshot, spreads())
    ranked = np.full(snapshot.capacity, -1, np.int64)
    for name, fits in zip(NAMES[: len(where)], fitting, strict=False):
        ranked[snapshot.rows[name]] = 0 if fits else -1
    if not (ranked >= 0).any():
        return
    for number, at in arrivals:
        if number in there:
            there.remove(number)
            snapshot.remove_pod(("ns", f"p{number}"))
        else:
            there.add(number)
            snapshot.put_pod(resident(pod(f"p{number}", on=NAMES[at % len(where)])))
        by_class, by_row = both(snapshot, classes, ranked)
        assert by_class == by_row


def test_the_node_without_pods_of_the_family_is_best() -> None:
    snapshot = cluster(["x", "x", "y"])
    snapshot.put_pod(resident(pod("p", on="n0")))
    ranked = np.full(snapshot.capacity, -1, np.int64)
    ranked[[snapshot.rows[name] for name in NAMES[:3]]] = 0
    by_class, _ = both(snapshot, Classes(snapshot, spreads()), ranked)
    scores = [by_class[snapshot.rows[name]] for name in NAMES[:3]]
    assert scores[2] == MAX and scores[0] < scores[1] < scores[2]
