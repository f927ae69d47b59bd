"""The vectorised scheduler against a slow reference implementation, on small random clusters."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.api.pods.placement import node_matches, untolerated
from podfit.api.pods.resources import pod_requests
from podfit.api.quantity import Quantity
from podfit.api.selectors import LabelSelector
from podfit.kit.clock import FakeClock
from podfit.scheduler.decide.board import Board, Placed
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.explain import explain, explain_objects, snapshot_of
from podfit.scheduler.decide.fit.rules import Rules
from podfit.scheduler.decide.pod.pods import resident
from podfit.scheduler.decide.preempt import PreemptionCandidate, preempt
from podfit.scheduler.decide.queue import PodQueue
from podfit.scheduler.observe import Observer

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

zones = st.sampled_from(["a", "b", None])
apps = st.sampled_from(["x", "y"])
spaces = st.sampled_from(["n1", "n2"])


@st.composite
def nodes(draw: st.DrawFn, count: int = 4) -> list[Object]:
    found = []
    for number in range(draw(st.integers(1, count))):
        labels = {HOST: f"node{number}"}
        if zone := draw(zones):
            labels[ZONE] = zone
        spec: Object = {}
        if draw(st.integers(0, 4)) == 0:
            spec["unschedulable"] = True
        if draw(st.integers(0, 3)) == 0:
            effect = draw(st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]))
            spec["taints"] = [{"key": "k", "value": draw(apps), "effect": effect}]
        allocatable = {"cpu": str(draw(st.integers(1, 4))), "memory": "4Gi", "pods": str(draw(st.integers(1, 5)))}
        if draw(st.booleans()):
            allocatable["example.com/gpu"] = "2"
        meta = {"name": f"node{number}", "labels": labels}
        found.append({"metadata": meta, "spec": spec, "status": {"allocatable": allocatable}})
    return found


@st.composite
def terms(draw: st.DrawFn) -> Object:
    term: Object = {
        "topologyKey": draw(st.sampled_from([ZONE, HOST])),
        "labelSelector": {"matchLabels": {"app": draw(apps)}},
    }
    how = draw(st.integers(0, 3))
    if how == 0:
        term["namespaces"] = [draw(spaces)]
    elif how == 1:
        term["namespaceSelector"] = draw(st.sampled_from([{}, {"matchLabels": {"team": "red"}}]))
    return term


@st.composite
def pods(draw: st.DrawFn, name: str) -> Object:
    requests = {"cpu": f"{draw(st.integers(0, 20)) * 100}m", "memory": f"{draw(st.integers(0, 8)) * 256}Mi"}
    if draw(st.integers(0, 4)) == 0:
        requests["example.com/gpu"] = "1"
    container: Object = {"name": "c", "resources": {"requests": requests}}
    if draw(st.integers(0, 3)) == 0:
        container["ports"] = [{"containerPort": 80, "hostPort": 80, "hostIP": draw(st.sampled_from(["", "1.1.1.1"]))}]
    spec: Object = {"containers": [container], "priority": draw(st.integers(0, 3))}
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = {ZONE: draw(st.sampled_from(["a", "b"]))}
    if draw(st.integers(0, 3)) == 0:
        spec["tolerations"] = [{"key": "k", "operator": "Equal", "value": draw(apps)}]
    affinity: Object = {}
    if draw(st.integers(0, 4)) == 0:
        affinity["podAffinity"] = {REQUIRED: draw(st.lists(terms(), min_size=1, max_size=2))}
    if draw(st.integers(0, 3)) == 0:
        affinity["podAntiAffinity"] = {REQUIRED: draw(st.lists(terms(), min_size=1, max_size=2))}
    if draw(st.integers(0, 4)) == 0:
        fields = [{"key": "metadata.name", "operator": "In", "values": [f"node{draw(st.integers(0, 3))}"]}]
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}
    if affinity:
        spec["affinity"] = affinity
    if draw(st.integers(0, 2)) == 0:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": draw(st.integers(1, 2)),
                "topologyKey": draw(st.sampled_from([ZONE, HOST])),
                "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])),
                "labelSelector": {"matchLabels": {"app": draw(apps)}},
                **draw(st.sampled_from([{}, {"minDomains": 2}, {"nodeTaintsPolicy": "Honor"}])),
            }
            for _ in range(draw(st.integers(1, 2)))
        ]
    meta = {"name": name, "namespace": draw(spaces), "uid": name, "labels": {"app": draw(apps)}}
    return {"metadata": meta, "spec": spec, "status": {}}


@st.composite
def clusters(draw: st.DrawFn, most: int = 6) -> tuple[list[Object], list[Object], Object]:
    """Nodes, pods on them (even where they would not be placed), and a pod that needs a node."""
    there = draw(nodes())
    running = []
    for number in range(draw(st.integers(0, most))):
        one = draw(pods(f"p{number}"))
        one["spec"]["nodeName"] = draw(st.sampled_from(there))["metadata"]["name"]
        running.append(one)
    return there, running, draw(pods("new"))


@st.composite
def resized(draw: st.DrawFn, pod: Object) -> Object:
    """The pod with other requests, or another size reported by its node; unchanged parts are shared."""
    amounts = {"cpu": f"{draw(st.integers(0, 9))}00m", **draw(st.sampled_from([{}, {"example.com/gpu": "1"}]))}
    sizes = {"requests": amounts, "limits": {"cpu": f"{draw(st.integers(1, 3))}"}}
    if draw(st.booleans()):
        containers = [{**container, "resources": sizes} for container in pod["spec"]["containers"]]
        return {**pod, "spec": {**pod["spec"], "containers": containers}}
    return {**pod, "status": {"containerStatuses": [{"name": "c", "resources": sizes, "allocatedResources": amounts}]}}


NAMESPACES = [{"metadata": {"name": "n1", "labels": {"team": "red"}}}, {"metadata": {"name": "n2"}}]


# --- the slow reference ---------------------------------------------------------------------------------------------
def covers(term: Object, owner: Object, other: Object) -> bool:
    namespace = other["metadata"]["namespace"]
    names = set(term.get("namespaces") or ())
    chosen = term.get("namespaceSelector")
    if not names and chosen is None:
        names = {owner["metadata"]["namespace"]}
    labels = {"n1": {"team": "red"}, "n2": {}}[namespace]
    in_scope = namespace in names or (chosen is not None and LabelSelector.from_object(chosen).matches(labels))
    return in_scope and LabelSelector.from_object(term["labelSelector"]).matches(other["metadata"]["labels"])


def required(pod: Object, side: str) -> list[Object]:
    return ((pod["spec"].get("affinity") or {}).get(side) or {}).get(REQUIRED) or []


def label(node: Object, key: str) -> str | None:
    return node["metadata"]["labels"].get(key)


def believable(pod: Object, node: Object, there: list[Object], running: list[Object]) -> bool:
    """Whether the node accepts the pod, by checking one rule after the other."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    where = {obj["metadata"]["name"]: obj for obj in there}
    mine = [obj for obj in running if obj["spec"]["nodeName"] == node["metadata"]["name"]]
    if node["spec"].get("unschedulable") or not node_matches(spec, node):
        return False
    if untolerated(node["spec"].get("taints") or [], tolerations, ("NoSchedule", "NoExecute")):
        return False
    return (
        has_room(pod, node, mine)
        and ports_free(pod, mine)
        and spreads(pod, node, there, running, where)
        and relations(pod, node, running, where)
    )


def has_room(pod: Object, node: Object, mine: list[Object]) -> bool:
    allocatable = node["status"]["allocatable"]
    if len(mine) + 1 > int(allocatable["pods"]):
        return False
    for name, amount in pod_requests(pod).items():
        used = sum((pod_requests(item).get(name, Quantity(0)) for item in mine), Quantity(0))
        if amount and used + amount > Quantity.parse(allocatable.get(name, "0")):
            return False
    return True


def ports_free(pod: Object, mine: list[Object]) -> bool:
    def addresses(obj: Object) -> list[str]:
        return [port.get("hostIP") or "0.0.0.0" for port in obj["spec"]["containers"][0].get("ports") or ()]

    return not any(a == b or "0.0.0.0" in (a, b) for other in mine for a in addresses(pod) for b in addresses(other))


def relations(pod: Object, node: Object, running: list[Object], where: dict[str, Object]) -> bool:
    def near(key: str, other: Object) -> bool:
        value = label(node, key)
        return value is not None and label(where[other["spec"]["nodeName"]], key) == value

    wanted = required(pod, "podAffinity")
    if wanted:
        friends = [obj for obj in running if all(covers(term, pod, obj) for term in wanted)]
        placed = any(
            label(where[friend["spec"]["nodeName"]], term["topologyKey"]) is not None
            for friend in friends
            for term in wanted
        )
        alone = not placed and all(covers(term, pod, pod) for term in wanted)
        for term in wanted:
            if label(node, term["topologyKey"]) is None:
                return False
            if not alone and not any(near(term["topologyKey"], friend) for friend in friends):
                return False
    for term in required(pod, "podAntiAffinity"):
        if any(covers(term, pod, item) and near(term["topologyKey"], item) for item in running):
            return False
    for item in running:
        for term in required(item, "podAntiAffinity"):
            if covers(term, item, pod) and near(term["topologyKey"], item):
                return False
    return True


def spreads(pod: Object, node: Object, there: list[Object], running: list[Object], where: dict[str, Object]) -> bool:
    hard = [
        row for row in pod["spec"].get("topologySpreadConstraints") or () if row["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    tolerations = pod["spec"].get("tolerations") or []
    for row in hard:
        key, selector = row["topologyKey"], LabelSelector.from_object(row["labelSelector"])
        counts: dict[str, int] = defaultdict(int)
        eligible = []
        for other in there:
            tainted = untolerated(other["spec"].get("taints") or [], tolerations, ("NoSchedule", "NoExecute"))
            if not node_matches(pod["spec"], other) or (row.get("nodeTaintsPolicy") == "Honor" and tainted):
                continue
            if all(label(other, obj["topologyKey"]) is not None for obj in hard):
                eligible.append(other)
                counts[str(label(other, key))] += 0
        for obj in running:
            home = where[obj["spec"]["nodeName"]]
            same = obj["metadata"]["namespace"] == pod["metadata"]["namespace"]
            if home in eligible and same and selector.matches(obj["metadata"]["labels"]):
                counts[str(label(home, key))] += 1
        if label(node, key) is None:
            return False
        least = 0 if len(counts) < row.get("minDomains", 1) else min(counts.values())
        own = int(selector.matches(pod["metadata"]["labels"]))
        if counts.get(str(label(node, key)), 0) + own - least > row["maxSkew"]:
            return False
    return True


# --- the claims -----------------------------------------------------------------------------------------------------
@given(clusters())
@settings(max_examples=400)
def test_a_node_is_feasible_exactly_when_the_rules_say_so(cluster: tuple[list[Object], list[Object], Object]) -> None:
    there, running, pod = cluster
    verdicts = {obj.node: obj.fits for obj in explain_objects(pod, there, running, NAMESPACES)}
    assert verdicts == {node["metadata"]["name"]: believable(pod, node, there, running) for node in there}


@given(clusters())
@settings(max_examples=200)
def test_a_pod_is_placed_exactly_where_explain_allows_it(cluster: tuple[list[Object], list[Object], Object]) -> None:
    there, running, pod = cluster
    board = Board(snapshot_of(there, running, NAMESPACES), seed=1)
    fitting = [item.node for item in explain(pod, board) if item.fits]
    verdict = board.place(pod)
    if isinstance(verdict, Placed):
        assert verdict.node in fitting
    else:
        assert not fitting
        assert verdict.message.startswith(f"0/{len(there)} nodes are available: ")


@given(nodes(), st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.data())
@settings(max_examples=150)
def test_placing_never_reserves_more_than_a_node_has(there: list[Object], _: list[int], data: st.DataObject) -> None:
    board = Board(snapshot_of(there, [], NAMESPACES), Rules(deterministic=data.draw(st.booleans())), seed=2)
    for number in range(data.draw(st.integers(1, 12))):
        pod = data.draw(pods(f"q{number}"))
        verdict = board.place(pod)
        if isinstance(verdict, Placed):
            board.snapshot.put_pod(resident(pod, verdict.node))
    assert (board.snapshot.requested <= board.snapshot.allocatable).all()


@given(clusters(8), st.data())
@settings(max_examples=150)
def test_an_incremental_snapshot_equals_one_built_from_scratch(
    cluster: tuple[list[Object], list[Object], Object], data: st.DataObject
) -> None:
    there, running, pod = cluster
    board = Board(Snapshot(capacity=1), seed=3)
    observer = Observer(board, PodQueue(), FakeClock(), "default-scheduler", lambda: None, lambda namespace: ())
    for namespace in NAMESPACES:
        board.snapshot.put_namespace(namespace["metadata"]["name"], namespace["metadata"].get("labels") or {})  # type: ignore[attr-defined]
    now_nodes: dict[str, Object] = {}
    now_pods: dict[str, Object] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.integers(0, 5))
        if step == 0:
            node = data.draw(st.sampled_from(there))
            now_nodes[node["metadata"]["name"]] = node
            board.snapshot.put_node(node)
        elif step == 1 and now_nodes:
            name = data.draw(st.sampled_from(sorted(now_nodes)))
            del now_nodes[name]
            board.snapshot.remove_node(name)
        elif step == 2 and running:
            one = data.draw(st.sampled_from(running))
            observer.pod(now_pods.get(one["metadata"]["name"]), one)
            now_pods[one["metadata"]["name"]] = one
        elif step == 3 and now_pods:
            observer.pod(now_pods.pop(data.draw(st.sampled_from(sorted(now_pods)))), None)
        elif step == 4 and now_pods:
            name = data.draw(st.sampled_from(sorted(now_pods)))
            one = data.draw(resized(now_pods[name]))
            observer.pod(now_pods[name], one)
            now_pods[name] = one
        else:
            # Queries in between fill the caches that later events must keep correct.
            board.place(pod)
    fresh = Board(snapshot_of(now_nodes.values(), now_pods.values(), NAMESPACES), seed=3)
    assert explain(pod, board) == explain(pod, fresh)
    for name in now_nodes:
        kept, built = board.snapshot.rows[name], fresh.snapshot.rows[name]
        for column, at in fresh.snapshot.columns.items():
            mine = board.snapshot.columns.get(column)
            assert (0 if mine is None else board.snapshot.requested[kept, mine]) == fresh.snapshot.requested[built, at]
        assert board.snapshot.lowest[kept] == fresh.snapshot.lowest[built]
    kept_scores = _scores(board, pod)
    assert kept_scores == _scores(fresh, pod)


def _scores(board: Board, pod: Object) -> dict[str, int]:
    ranked = board.fitting(board.shape(pod)).ranked()
    return {name: int(ranked[row]) for name, row in board.snapshot.rows.items()}


@given(clusters(8))
@settings(max_examples=200)
def test_preemption_removes_a_minimal_set_that_makes_room(cluster: tuple[list[Object], list[Object], Object]) -> None:
    there, running, pod = cluster
    pod["spec"]["priority"] = 2
    board = Board(snapshot_of(there, running, NAMESPACES), seed=4)
    refused = board.place(pod)
    if isinstance(refused, Placed):
        return
    before = board.snapshot.requested.copy()
    chosen = preempt(board, pod, refused, [])
    assert np.array_equal(board.snapshot.requested, before)
    if not isinstance(chosen, PreemptionCandidate):
        return
    assert all(victim.priority < 2 for victim in chosen.victims)
    node = next(obj for obj in there if obj["metadata"]["name"] == chosen.node)
    gone = {victim.key[1] for victim in chosen.victims}
    left = [obj for obj in running if obj["metadata"]["name"] not in gone]
    assert believable(pod, node, there, left)
    for victim in chosen.victims:
        assert not believable(pod, node, there, [*left, victim.pod]), "a victim was not needed"
