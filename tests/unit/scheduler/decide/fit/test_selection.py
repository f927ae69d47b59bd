"""Which nodes selector and affinity allow."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.selection import Selection, named_nodes
from podfit.scheduler.decide.pod.pods import shape_of


def fields(*names: str, operator: str = "In") -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


def affinity(*terms: Object) -> Object:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, None),
        (affinity(fields("a"), fields("b")), {"a", "b"}),
        (affinity(fields("a"), {"matchExpressions": []}), None),
        (affinity(fields("a", operator="NotIn")), None),
        (affinity({"matchFields": fields("a", "b")["matchFields"] + fields("b")["matchFields"]}), {"b"}),
    ],
)
def test_nodes_are_listed_by_name_only_if_every_term_does(spec: Object, names: set[str] | None) -> None:
    assert named_nodes(spec) == names


def node(name: str, disk: str) -> Object:
    return {"metadata": {"name": name, "labels": {"disk": disk}}, "spec": {}, "status": {"allocatable": {}}}


def allowed(selection: Selection, snapshot: Snapshot, **spec: Any) -> set[str]:
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [{"name": "c"}], **spec}}
    mask = selection.mask(shape_of(pod, None))
    return {name for name, row in snapshot.rows.items() if mask[row]}


def test_a_mask_follows_nodes_that_change() -> None:
    snapshot = Snapshot()
    selection = Selection(snapshot)
    for name, disk in (("a", "ssd"), ("b", "hdd")):
        snapshot.put_node(node(name, disk))
    assert allowed(selection, snapshot) == {"a", "b"}
    assert allowed(selection, snapshot, nodeSelector={"disk": "ssd"}) == {"a"}
    snapshot.put_node(node("b", "ssd"))
    assert allowed(selection, snapshot, nodeSelector={"disk": "ssd"}) == {"a", "b"}
    for number in range(200):
        snapshot.put_node(node(f"n{number}", "hdd"))
    assert allowed(selection, snapshot, nodeSelector={"disk": "ssd"}) == {"a", "b"}
    assert allowed(selection, snapshot, **affinity(fields("n7", "unknown"))) == {"n7"}
