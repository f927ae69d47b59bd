"""The reasons why a pod does not fit, with numbers."""

from __future__ import annotations

from tests.support.scheduling import node, pod

from podfit.scheduler.decide.board import Board
from podfit.scheduler.decide.explain import explain, explain_objects, snapshot_of
from podfit.scheduler.decide.pod.pods import resident


def test_explain_says_what_lacks_and_by_how_much() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    nodes = [node("n1", cpu="2"), node("n2", taints=[taint]), node("n3")]
    verdicts = explain_objects(pod("new", cpu="1500m"), nodes, [pod("p", on="n1")])
    lacking, tainted, fits = verdicts
    assert [verdict.node for verdict in verdicts] == ["n1", "n2", "n3"]
    assert lacking.detail == "cpu: requested 1500m, free 1 of 2, missing 500m"
    assert lacking.preemption_helps
    assert (tainted.plugin, tainted.detail) == ("TaintToleration", "taint k=v:NoSchedule")
    assert fits.fits


def test_a_placed_pod_is_explained_as_if_it_had_no_node() -> None:
    one = pod("p", cpu="3", on="n1")
    where = Board(snapshot_of([node("n1")], [one]))
    assert [verdict.fits for verdict in explain(one, where)] == [True]
    assert resident(one).key in where.snapshot.pods
