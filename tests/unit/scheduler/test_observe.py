"""A pod that is being migrated uses capacity on both nodes until its node is decided."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.migrations import ANNOTATION, FAILED, MOVED, REQUESTED, Migration
from podfit.kit.clock import FakeClock
from podfit.scheduler.decide.board import Board, Placed
from podfit.scheduler.decide.queue import PodQueue
from podfit.scheduler.observe import Observer


def node(name: str) -> Object:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {"metadata": {"name": name, "labels": {}}, "spec": {}, "status": {"allocatable": allocatable}}


def pod(name: str, cpu: str, on: str = "", phase: str = "") -> Object:
    meta: Object = {"name": name, "namespace": "ns", "uid": name}
    if phase:
        meta["annotations"] = {ANNOTATION: Migration(phase, "one", "two").text()}
    spec: Object = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    if on:
        spec["nodeName"] = on
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if on else "Pending"}}


def places(phase: str, on: str) -> set[str]:
    """The node on which a pod of 2 CPUs fits, beside another of 3 CPUs that is being migrated from one to two."""
    board = Board(seed=1)
    observer = Observer(board, PodQueue(), FakeClock(), "default-scheduler", lambda: None, lambda namespace: ())
    for name in ("one", "two"):
        observer.node(None, node(name))
    before, moving = pod("vm", "3", "one"), pod("vm", "3", "one", REQUESTED)
    observer.pod(None, before)
    observer.pod(before, moving)
    if phase != REQUESTED:
        observer.pod(moving, pod("vm", "3", on, phase))
    verdict = board.place(pod("new", "2"))
    return {verdict.node} if isinstance(verdict, Placed) else set()


def test_it_counts_on_both_nodes_on_its_way() -> None:
    assert places(REQUESTED, "one") == set()


def test_it_counts_where_it_is_afterwards() -> None:
    assert places(MOVED, "two") == {"one"}
    assert places(FAILED, "one") == {"two"}
