"""The garbage collector's decisions from the graph of owners."""

from typing import Any

from podfit.api.registry.kinds import kind_named
from podfit.controllers.garbage.graph import (
    Delete,
    DropFinalizer,
    DropReferences,
    Graph,
    NoAction,
    Orphan,
    item_of,
    judge,
)

SET, POD = kind_named("ReplicaSet"), kind_named("Pod")


def obj(uid: str, owners: list[Any] = (), finalizers: list[str] = (), deleting: bool = False) -> dict[str, Any]:  # type: ignore[assignment]
    meta: dict[str, Any] = {"name": uid, "namespace": "d", "uid": uid}
    if owners:
        meta["ownerReferences"] = list(owners)
    if finalizers:
        meta["finalizers"] = list(finalizers)
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta}


def ref(uid: str, block: bool = False) -> dict[str, Any]:
    return {"uid": uid, "name": uid, "kind": "ReplicaSet", "apiVersion": "apps/v1", "blockOwnerDeletion": block}


def graph_of(*objects: dict[str, Any]) -> Graph:
    graph = Graph()
    for item in objects:
        graph.put(item_of(POD, item))
    return graph


def verdict(graph: Graph, uid: str, absent: set[str] = frozenset()) -> object:  # type: ignore[assignment]
    return judge(graph, graph.nodes[uid], lambda owner, _: owner["uid"] in absent)


def test_an_object_whose_only_owner_is_gone_is_deleted() -> None:
    assert verdict(graph_of(obj("p", [ref("rs")])), "p", {"rs"}) == Delete("Background")


def test_an_object_with_a_living_owner_stays_and_forgets_the_dead_one() -> None:
    graph = graph_of(obj("rs2"), obj("p", [ref("rs"), ref("rs2")]))
    assert verdict(graph, "p", {"rs"}) == DropReferences(("rs",))


def test_an_owner_of_an_unknown_kind_counts_as_alive() -> None:
    assert verdict(graph_of(obj("p", [ref("unknown")])), "p") == NoAction()


def test_foreground_deletion_waits_for_blocking_dependents() -> None:
    owner = obj("rs", finalizers=["foregroundDeletion"], deleting=True)
    graph = graph_of(owner, obj("p", [ref("rs", block=True)]))
    assert verdict(graph, "rs") == NoAction()
    assert verdict(graph, "p") == Delete("Background")
    graph.drop("p")
    assert verdict(graph, "rs") == DropFinalizer("foregroundDeletion")


def test_dependents_that_do_not_block_do_not_hold_their_owner() -> None:
    owner = obj("rs", finalizers=["foregroundDeletion"], deleting=True)
    assert verdict(graph_of(owner, obj("p", [ref("rs")])), "rs") == DropFinalizer("foregroundDeletion")


def test_orphaning_frees_the_dependents_first() -> None:
    owner = obj("rs", finalizers=["orphan"], deleting=True)
    assert verdict(graph_of(owner, obj("p", [ref("rs")])), "rs") == Orphan(("p",))


def test_dropping_an_object_forgets_it_as_a_dependent() -> None:
    graph = graph_of(obj("rs"), obj("p", [ref("rs")]))
    graph.drop("p")
    assert graph.below("rs") == [] and graph.dependents == {}


def test_a_reference_means_an_object_only_where_it_says_it_is() -> None:
    owner = item_of(SET, obj("set"))
    assert owner.is_named_by(ref("set"), "d")
    assert not owner.is_named_by(ref("set"), "other")
    assert not owner.is_named_by(ref("set"), "")
    assert not owner.is_named_by({**ref("set"), "name": "another"}, "d")
    assert not owner.is_named_by({**ref("set"), "kind": "Deployment"}, "d")
    everywhere = item_of(kind_named("Node"), {"metadata": {"name": "n", "uid": "n"}})
    named = {"uid": "n", "name": "n", "kind": "Node", "apiVersion": "v1"}
    assert everywhere.is_named_by(named, "d") and everywhere.is_named_by(named, "")


def test_an_object_that_lost_its_owner_goes_as_its_finalizers_ask() -> None:
    def found(*finalizers: str) -> object:
        child = obj("child", [ref("gone")], list(finalizers))
        return judge(graph_of(child), item_of(POD, child), lambda owner, _: True)

    assert found() == Delete("Background")
    assert found("orphan") == Delete("Orphan")
    assert found("foregroundDeletion") == Delete("Foreground")
