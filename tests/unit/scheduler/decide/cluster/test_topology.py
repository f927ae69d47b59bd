"""Domains of nodes by topology key."""

from __future__ import annotations

import numpy as np

from podfit.api.objects import Object
from podfit.scheduler.decide.cluster.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"


def node(name: str, zone: str = "") -> Object:
    labels = {ZONE: zone} if zone else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": {"cpu": "1"}}}


def cluster(**zones: str) -> Snapshot:
    snapshot = Snapshot()
    for name, zone in zones.items():
        snapshot.put_node(node(name, zone))
    return snapshot


def test_nodes_with_the_same_label_are_in_one_domain_and_those_without_in_none() -> None:
    snapshot = cluster(a="x", b="y", c="x", d="")
    ids = snapshot.topology.of(ZONE)
    rows = snapshot.rows
    assert ids[rows["a"]] == ids[rows["c"]] != ids[rows["b"]] and ids[rows["d"]] == -1
    assert snapshot.topology.size(ZONE) == 2
    assert snapshot.topology.domains(ZONE) == 3 and not snapshot.topology.everywhere(ZONE)


def test_counts_are_summed_by_domain_and_spread_back_to_rows() -> None:
    snapshot = cluster(a="x", b="y", c="x", d="")
    counts = np.zeros(snapshot.capacity, np.int64)
    for name, count in (("a", 1), ("b", 5), ("c", 2), ("d", 7)):
        counts[snapshot.rows[name]] = count
    by_domain = snapshot.topology.sum(ZONE, counts)
    assert sorted(by_domain) == [3, 5]
    spread = snapshot.topology.spread(ZONE, by_domain)
    assert [spread[snapshot.rows[name]] for name in "abcd"] == [3, 5, 3, 0]


def test_a_node_that_moves_changes_its_domain_and_the_version() -> None:
    snapshot = cluster(a="x", b="y")
    snapshot.topology.of(ZONE)
    before = snapshot.topology.version
    snapshot.put_node(node("a", "y"))
    ids = snapshot.topology.of(ZONE)
    assert ids[snapshot.rows["a"]] == ids[snapshot.rows["b"]] and snapshot.topology.version > before


def test_domains_survive_a_growing_cluster() -> None:
    snapshot = cluster(a="x")
    snapshot.topology.of(ZONE)
    for number in range(200):
        snapshot.put_node(node(f"n{number}", "x"))
    assert len(snapshot.topology.of(ZONE)) == snapshot.capacity >= 201
    assert snapshot.topology.domains(ZONE) == 1
