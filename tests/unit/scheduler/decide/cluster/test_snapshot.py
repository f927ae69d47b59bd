"""Nodes and pods in tables, row by row."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.pod.needs import needs_of
from podfit.scheduler.decide.pod.pods import resident


def node(name: str, cpu: str = "4") -> Object:
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}}


def pod(name: str, cpu: str = "1", on: str = "a", **spec: Any) -> Object:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}]
    meta = {"name": name, "namespace": "ns", "uid": name}
    return {"metadata": meta, "spec": {"containers": containers, "nodeName": on, **spec}, "status": {}}


def used(snapshot: Snapshot, name: str = "a") -> int:
    return int(snapshot.requested[snapshot.rows[name], snapshot.column("cpu")])


def test_pods_count_on_their_node_until_they_are_removed() -> None:
    snapshot = Snapshot()
    snapshot.put_node(node("a"))
    snapshot.put_pod(resident(pod("p")))
    snapshot.put_pod(resident(pod("q", "500m")))
    assert used(snapshot) == 1500
    removed = snapshot.remove_pod(("ns", "p"))
    assert removed is not None and used(snapshot) == 500
    assert snapshot.remove_pod(("ns", "p")) is None


def test_a_pod_whose_node_is_not_known_yet_counts_as_soon_as_it_is() -> None:
    snapshot = Snapshot()
    snapshot.put_pod(resident(pod("p")))
    snapshot.put_node(node("a"))
    assert used(snapshot) == 1000
    snapshot.remove_node("a")
    snapshot.put_node(node("a"))
    assert used(snapshot) == 1000


def test_a_resize_counts_the_difference() -> None:
    snapshot = Snapshot()
    snapshot.put_node(node("a"))
    one = resident(pod("p"))
    snapshot.put_pod(one)
    snapshot.resize_pod(one, needs_of(pod("p", "3"), use_status=True))
    assert used(snapshot) == 3000


def test_host_ports_are_taken_by_address_and_protocol() -> None:
    snapshot = Snapshot()
    row = snapshot.put_node(node("a"))
    snapshot.put_pod(resident(pod("p", ports=[{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}])))
    assert snapshot.port_taken(row, [("10.0.0.1", "TCP", 80)]) and snapshot.port_taken(row, [("0.0.0.0", "TCP", 80)])
    assert not snapshot.port_taken(row, [("10.0.0.2", "TCP", 80), ("10.0.0.1", "UDP", 80)])
    snapshot.remove_pod(("ns", "p"))
    assert not snapshot.port_taken(row, [("10.0.0.1", "TCP", 80)])


def test_tables_grow_with_nodes_and_keep_what_they_hold() -> None:
    snapshot = Snapshot(capacity=2)
    for number in range(9):
        snapshot.put_node(node(f"n{number}"))
        snapshot.put_pod(resident(pod(f"p{number}", on=f"n{number}")))
    assert len(snapshot) == 9 and [used(snapshot, f"n{number}") for number in range(9)] == [1000] * 9


def test_the_row_of_a_removed_node_is_used_again() -> None:
    snapshot = Snapshot()
    row = snapshot.put_node(node("a"))
    snapshot.remove_node("a")
    assert len(snapshot) == 0
    assert snapshot.put_node(node("b")) == row and used(snapshot, "b") == 0
