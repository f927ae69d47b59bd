"""Pods of one Service or set are softly spread among nodes and zones by default."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.scheduler.decide.board import Board, Placed
from podfit.scheduler.decide.explain import snapshot_of
from podfit.scheduler.decide.fit.rules import Rules
from podfit.scheduler.decide.pod.owners import Owners
from podfit.scheduler.decide.pod.pods import resident

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def node(name: str, zone: str | None = None, host: bool = True, cpu: str = "64") -> Object:
    labels = {**({HOST: name} if host else {}), **({ZONE: zone} if zone else {})}
    amounts = {"cpu": cpu, "memory": "256Gi", "pods": "100"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": amounts}}


def pod(name: str, on: str = "", owner: str = "rs", **labels: str) -> Object:
    meta: Object = {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "a", **labels}}
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": True}]
    return {"metadata": meta, "spec": {"containers": [{"name": "c"}], "nodeName": on}, "status": {}}


def owner(kind: str, name: str, selector: Object | None) -> Object:
    return {"kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": {"selector": selector}}


def board(nodes: list[Object], pods: list[Object], **rules: Any) -> Board:
    made = Board(snapshot_of(nodes, pods), Rules(deterministic=True, fit_weight=0, balanced_weight=0, **rules))
    made.owners.owning_set(None, owner("ReplicaSet", "rs", {"matchLabels": {"app": "a"}}))
    return made


def chosen(where: Board, what: Object) -> str:
    verdict = where.place(what)
    assert isinstance(verdict, Placed), verdict
    return verdict.node


def test_pods_of_a_set_prefer_another_node() -> None:
    where = board([node("n1"), node("n2")], [pod("p", on="n1")])
    assert chosen(where, pod("q")) == "n2"
    assert chosen(board([node("n1"), node("n2")], [pod("p", on="n1")], default_spread=False), pod("q")) == "n1"


def test_pods_of_a_set_prefer_another_zone_to_another_node() -> None:
    nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b")]
    assert chosen(board(nodes, [pod("p", on="n1")]), pod("q")) == "n3"


def test_pods_without_a_matching_selector_are_not_spread() -> None:
    where = board([node("n1"), node("n2")], [pod("p", on="n1")])
    assert chosen(where, pod("q", owner="")) == "n1"
    where.owners.service(None, owner("Service", "web", {"app": "a"}))
    assert chosen(where, pod("q", owner="")) == "n2"
    where.owners.service(owner("Service", "web", {"app": "a"}), None)
    assert chosen(where, pod("q", owner="")) == "n1"


def test_a_pod_with_constraints_of_its_own_is_not_spread_by_default() -> None:
    alone = pod("q")
    alone["spec"]["topologySpreadConstraints"] = [
        {"maxSkew": 9, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ]
    assert chosen(board([node("n1"), node("n2")], [pod("p", on="n1")]), alone) == "n1"


def test_default_spreading_combines_the_selectors_of_services_and_the_replica_set() -> None:
    owners = Owners()
    owners.service(None, owner("Service", "web", {"tier": "front"}))
    owners.owning_set(None, owner("ReplicaSet", "rs", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}))
    family = owners.family(pod("p", tier="front"))
    assert family is not None and str(family.spreads[0].who.selector) == "app,tier=front"
    other = owners.family(pod("p"))
    assert other is not None and str(other.spreads[0].who.selector) == "app"
    assert [(spread.topology_key, spread.max_skew, spread.hard) for spread in family.spreads] == [
        (HOST, 3, False),
        (ZONE, 5, False),
    ]


def test_a_service_without_a_selector_selects_no_pods() -> None:
    owners = Owners()
    owners.service(None, owner("Service", "external", None))
    assert owners.family(pod("p", owner="")) is None


def expected(nodes: list[Object], fits: list[bool], counts: dict[str, int]) -> list[int]:
    """The default score of each node that fits, computed one by one."""
    among = [obj for obj, good in zip(nodes, fits, strict=True) if good]
    zones = {obj["metadata"]["labels"].get(ZONE, "") for obj in among}
    raw = []
    for obj in among:
        labels, total = obj["metadata"]["labels"], 0.0
        if HOST in labels:
            total += counts[obj["metadata"]["name"]] * math.log(len(among) + 2) + 2
        if ZONE in labels:
            here = sum(
                counts[other["metadata"]["name"]]
                for other in nodes
                if other["metadata"]["labels"].get(ZONE) == labels[ZONE]
            )
            total += here * math.log(len(zones) + 2) + 4
        raw.append(math.floor(total + 0.5))
    high, low = max(raw), min(raw)
    return [100 if high == 0 else 100 * (high + low - score) // high for score in raw]


@given(st.data())
def test_scores_are_those_worked_out_node_by_node(data: st.DataObject) -> None:
    nodes, fits, counts, pods = [], [], {}, []
    for number in range(data.draw(st.integers(1, 6))):
        name = f"n{number}"
        fits.append(data.draw(st.booleans()) or number == 0)
        zone, host = data.draw(st.sampled_from(["a", "b", None])), data.draw(st.booleans())
        nodes.append(node(name, zone, host, cpu="64" if fits[-1] else "0"))
        counts[name] = data.draw(st.integers(0, 4))
        pods += [pod(f"{name}-{index}", on=name) for index in range(counts[name])]
    where = board(nodes, pods)
    new = pod("new")
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
    ranked = where.fitting(where.shape(new)).ranked()
    found = [int(ranked[where.snapshot.rows[f"n{at}"]]) for at, good in enumerate(fits) if good]
    assert found == [2 * score for score in expected(nodes, fits, counts)]


def spread_scores(where: Board, nodes: list[Object]) -> list[int]:
    ranked = where.fitting(where.shape(pod("new"))).ranked()
    return [int(ranked[where.snapshot.rows[candidate["metadata"]["name"]]]) for candidate in nodes]


def pods_by_node(where: Board, nodes: list[Object]) -> dict[str, int]:
    rows = {candidate["metadata"]["name"]: where.snapshot.rows[candidate["metadata"]["name"]] for candidate in nodes}
    return {name: len(where.snapshot.here[row]) for name, row in rows.items()}


@given(st.data())
def test_scores_kept_event_by_event_are_those_worked_out_node_by_node(data: st.DataObject) -> None:
    def draw_node(number: int) -> Object:
        zone = data.draw(st.sampled_from(["a", "b", "c", None]))
        made = node(f"n{number}", zone, data.draw(st.integers(0, 3)) > 0)
        made["status"]["allocatable"]["pods"] = data.draw(st.sampled_from(["100", "2"]))
        return made

    nodes = {number: draw_node(number) for number in range(data.draw(st.integers(1, 5)))}
    where, names = board(list(nodes.values()), []), iter(range(1000))
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["come", "come", "many", "go", "node", "lost"])):
            case "come" | "many" as how:
                for _ in range(1 if how == "come" else 12):
                    on = data.draw(st.sampled_from(sorted(nodes)))
                    where.snapshot.put_pod(resident(pod(f"p{next(names)}", on=f"n{on}")))
            case "go" if where.snapshot.pods:
                where.snapshot.remove_pod(data.draw(st.sampled_from(sorted(where.snapshot.pods))))
            case "node":
                number = data.draw(st.integers(0, 6))
                nodes[number] = draw_node(number)
                where.snapshot.put_node(nodes[number])
            case "lost" if len(nodes) > 1:
                where.snapshot.remove_node(f"n{nodes.popitem()[0]}")
        there = list(nodes.values())
        counts = pods_by_node(where, there)
        fits = [counts[obj["metadata"]["name"]] < int(obj["status"]["allocatable"]["pods"]) for obj in there]
        best = iter(expected(there, fits, counts) if any(fits) else [])
        assert spread_scores(where, there) == [2 * next(best) if good else -1 for good in fits]


def test_many_kinds_of_nodes_are_compared_one_by_one() -> None:
    nodes = [node(f"n{number}", f"zone-{number}") for number in range(150)]
    where = board(nodes, [pod(f"p{number}", on=f"n{number // 2}") for number in range(20)])
    counts = pods_by_node(where, nodes)
    assert spread_scores(where, nodes) == [2 * score for score in expected(nodes, [True] * len(nodes), counts)]
