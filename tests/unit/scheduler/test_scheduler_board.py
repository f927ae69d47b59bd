"""Choosing a node: scores, promises to others, words of refusal."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.scheduler.decide.cluster.board import Board, Placed, Refused
from podfit.scheduler.decide.fit.explain import explain, explain_objects, snapshot_of
from podfit.scheduler.decide.fit.rules import MOST_ALLOCATED, Rules
from podfit.scheduler.decide.pod.needs import needs_of
from podfit.scheduler.decide.pod.pods import resident
from podfit.scheduler.decide.preempt import Budget, Candidate, NoRoom, budgets_from, preempt

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def node(name: str, cpu: str = "4", memory: str = "8Gi", zone: str = "", **spec: Any) -> Object:
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    amounts = {"cpu": cpu, "memory": memory, "pods": "10"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": amounts}}


def pod(name: str, cpu: str = "1", memory: str = "1Gi", on: str = "", app: str = "a", **spec: Any) -> Object:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    containers = [{"name": "c", "resources": {"requests": requests}}]
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {"app": app}}
    placed = {"nodeName": on} if on else {}
    return {"metadata": meta, "spec": {"containers": containers, **placed, **spec}, "status": {}}


def board(nodes: list[Object], pods: list[Object] | None = None, **rules: Any) -> Board:
    return Board(snapshot_of(nodes, pods or []), Rules(deterministic=True, **rules))


def chosen(where: Board, what: Object) -> str:
    verdict = where.place(what)
    assert isinstance(verdict, Placed), verdict
    return verdict.node


def refused(where: Board, what: Object) -> Refused:
    verdict = where.place(what)
    assert isinstance(verdict, Refused)
    return verdict


def test_the_emptier_node_is_taken_by_default() -> None:
    assert chosen(board([node("n1"), node("n2")], [pod("p", on="n1")]), pod("new")) == "n2"


def test_the_fuller_node_is_taken_when_packing() -> None:
    assert chosen(board([node("n1"), node("n2")], [pod("p", on="n2")], strategy=MOST_ALLOCATED), pod("new")) == "n2"


def test_a_balanced_node_is_better_than_one_that_lacks_memory() -> None:
    lopsided = [pod("p", cpu="", memory="4Gi", on="n1"), pod("q", cpu="1", memory="2Gi", on="n2")]
    assert chosen(board([node("n1"), node("n2")], lopsided), pod("new", cpu="500m", memory="512Mi")) == "n2"


def test_a_preferred_node_wins_over_an_emptier_one() -> None:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 10, "preference": term}]}}
    where = board([node("n1", zone="a"), node("n2", zone="b")], [pod("p", on="n2")])
    assert chosen(where, pod("new", affinity=affinity)) == "n2"


def test_a_node_to_be_avoided_is_taken_last() -> None:
    taint = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    where = board([node("n1", taints=[taint]), node("n2")], [pod("p", on="n2")])
    assert chosen(where, pod("new")) == "n2"
    assert chosen(where, pod("free", tolerations=[{"operator": "Exists"}])) == "n1"


def test_preferred_pod_affinity_pulls_and_anti_affinity_pushes() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "friend"}}}
    wish = {PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}
    where = board([node("n1"), node("n2")], [pod("p", on="n2", app="friend")])
    assert chosen(where, pod("near", affinity={"podAffinity": wish})) == "n2"
    where = board([node("n1"), node("n2")], [pod("p", on="n1", app="friend", cpu="1m"), pod("q", on="n2", cpu="2")])
    assert chosen(where, pod("away", affinity={"podAntiAffinity": wish})) == "n2"


def test_running_pods_attract_who_they_want_near() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "new"}}}
    wish = {"podAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}}
    where = board([node("n1"), node("n2")], [pod("p", on="n2", affinity=wish)])
    assert chosen(where, pod("new", app="new")) == "n2"
    assert chosen(where, pod("other", app="other")) == "n1"


def test_soft_spreading_prefers_the_domain_with_fewer() -> None:
    row = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    row["labelSelector"] = {"matchLabels": {"app": "a"}}  # type: ignore[assignment]
    nodes = [node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b", cpu="4")]
    where = board(nodes, [pod("p", on="n1", cpu="1m"), pod("x", on="n3", cpu="2", app="x")])
    assert chosen(where, pod("new", topologySpreadConstraints=[row])) == "n3"


def test_match_label_keys_count_only_pods_of_the_same_revision() -> None:
    row = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["rev"]}
    row["labelSelector"] = {"matchLabels": {"app": "a"}}
    old = pod("old", on="n1")
    old["metadata"]["labels"]["rev"] = "1"
    where = board([node("n1"), node("n2", cpu="1")], [old, pod("full", on="n2", app="x")])
    new = pod("new", topologySpreadConstraints=[row])
    new["metadata"]["labels"]["rev"] = "2"
    assert chosen(where, new) == "n1"
    new["metadata"]["labels"]["rev"] = "1"
    assert "topology spread" in refused(where, new).message


def test_overhead_counts() -> None:
    where = board([node("n1", cpu="1")])
    assert "Insufficient cpu" in refused(where, pod("new", cpu="800m", overhead={"cpu": "300m"})).message


def test_usage_is_the_largest_of_desired_allocated_and_actual() -> None:
    one = pod("p", cpu="1", on="n1")
    status = {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    one["status"] = {"containerStatuses": [status]}
    assert "Insufficient cpu" in refused(board([node("n1")], [one]), pod("new", cpu="2")).message
    one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    one["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    assert chosen(board([node("n1")], [one]), pod("new", cpu="1")) == "n1"


def test_refusals_use_kubernetes_words_and_order() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    nodes = [node("n1", cpu="1"), node("n2", taints=[taint]), node("n3", unschedulable=True), node("n4", zone="b")]
    where = board(nodes, [pod("p", on="n1", memory="8Gi")])
    verdict = refused(where, pod("new", nodeSelector={HOST: "n1"}))
    assert verdict.message == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) didn't match Pod's node "
        "affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )


def test_nodes_left_out_by_name_are_told_apart() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}
    where = board([node("n1"), node("n2", cpu="1")], [pod("p", on="n2")])
    assert refused(where, pod("new", affinity=affinity)).message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    fields.append({"key": "metadata.name", "operator": "In", "values": ["n1"]})
    assert refused(where, pod("odd", affinity=affinity)).message == (
        "0/2 nodes are available: pod affinity terms conflict."
    )


def test_room_promised_to_a_more_important_pod_is_not_given_away() -> None:
    where = board([node("n1", cpu="1")])
    where.nominate(pod("vip", priority=10), "n1")
    assert refused(where, pod("new", priority=5)).message == "0/1 nodes are available: 1 Insufficient cpu."
    assert chosen(where, pod("boss", priority=11)) == "n1"
    assert chosen(where, pod("vip", priority=10)) == "n1"


def test_a_pod_goes_to_the_node_it_was_nominated_for() -> None:
    where = board([node("n1"), node("n2")], [pod("p", on="n2")])
    new = pod("new")
    new["status"]["nominatedNodeName"] = "n2"
    assert chosen(where, new) == "n2"


# --- preemption


def victims(where: Board, what: Object, budgets: list[Budget] | None = None) -> Candidate | NoRoom:
    return preempt(where, what, refused(where, what), budgets or [])


def test_the_node_with_the_least_important_victims_is_chosen() -> None:
    where = board([node("n1", cpu="1"), node("n2", cpu="1")], [pod("p", on="n1", priority=5), pod("q", on="n2")])
    found = victims(where, pod("vip", priority=10))
    assert isinstance(found, Candidate)
    assert (found.node, [one.key[1] for one in found.victims]) == ("n2", ["q"])


def test_pods_that_need_not_go_stay() -> None:
    pods = [pod("small", cpu="1", on="n1", priority=1), pod("big", cpu="3", on="n1", priority=2)]
    found = victims(board([node("n1")], pods), pod("vip", cpu="1", priority=10))
    assert isinstance(found, Candidate)
    assert [one.key[1] for one in found.victims] == ["small"]


def test_a_budget_is_broken_only_where_nothing_else_helps() -> None:
    budget = {
        "metadata": {"namespace": "ns", "name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 0},
    }
    pods = [pod("kept", on="n1", app="kept"), pod("free", on="n2", priority=5)]
    where = board([node("n1", cpu="1"), node("n2", cpu="1")], pods)
    found = victims(where, pod("vip", priority=10), budgets_from([budget]))
    assert isinstance(found, Candidate)
    assert (found.node, found.violations) == ("n2", 0)
    where = board([node("n1", cpu="1")], pods[:1])
    found = victims(where, pod("vip", priority=10), budgets_from([budget]))
    assert isinstance(found, Candidate)
    assert found.violations == 1


def test_an_anti_affine_pod_may_be_preempted() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}}
    where = board([node("n1")], [pod("p", on="n1", affinity={"podAntiAffinity": {REQUIRED: [term]}})])
    found = victims(where, pod("vip", priority=10))
    assert isinstance(found, Candidate)
    assert [one.key[1] for one in found.victims] == ["p"]


@pytest.mark.parametrize(
    ("cpu", "priority", "message"),
    [
        ("4", 0, "0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        ("5", 9, "0/1 nodes are available: 1 Preemption is not helpful for scheduling."),
        ("4", 3, "0/1 nodes are available: 1 Insufficient cpu."),
    ],
)
def test_why_preemption_does_not_help_is_told(cpu: str, priority: int, message: str) -> None:
    pods = [pod("low", on="n1"), pod("high", on="n1", priority=5)]
    found = victims(board([node("n1")], pods), pod("new", cpu=cpu, priority=priority))
    assert found == NoRoom(message)


def test_a_pod_whose_victims_are_going_waits_for_them() -> None:
    going = pod("low", on="n1")
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    vip = pod("vip", priority=10)
    vip["status"]["nominatedNodeName"] = "n1"
    found = victims(board([node("n1", cpu="1")], [going]), vip)
    assert found == NoRoom("not eligible due to a terminating pod on the nominated node.")


# --- explaining


def test_explain_says_what_lacks_and_by_how_much() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    nodes = [node("n1", cpu="2"), node("n2", taints=[taint]), node("n3")]
    verdicts = explain_objects(pod("new", cpu="1500m"), nodes, [pod("p", on="n1")])
    lacking, tainted, fits = verdicts
    assert [one.node for one in verdicts] == ["n1", "n2", "n3"]
    assert lacking.detail == "cpu: requested 1500m, free 1 of 2, missing 500m"
    assert lacking.preemption_helps
    assert (tainted.plugin, tainted.detail) == ("TaintToleration", "taint k=v:NoSchedule")
    assert fits.fits


def test_a_placed_pod_is_explained_as_if_it_had_no_node() -> None:
    one = pod("p", cpu="3", on="n1")
    where = Board(snapshot_of([node("n1")], [one]))
    assert [verdict.fits for verdict in explain(one, where)] == [True]
    assert resident(one).key in where.snapshot.pods


def test_a_pod_whose_claim_is_missing_fits_nowhere_until_it_is_there() -> None:
    where = board([node("n1"), node("n2")])
    claiming = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    assert chosen(where, claiming) == "n1"
    where.claims.aware = True
    no = refused(where, claiming)
    assert no.message == '0/2 nodes are available: persistentvolumeclaim "data" not found.'
    outcome = preempt(where, claiming, no, [])
    assert isinstance(outcome, NoRoom)
    assert outcome.message == "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    before, claim = where.claims.version, {"metadata": {"name": "data", "namespace": "ns"}}
    where.claims.changed(None, claim)
    assert where.claims.version > before and chosen(where, claiming) == "n1"
    going = {"metadata": {**claim["metadata"], "deletionTimestamp": "now"}}
    where.claims.changed(claim, going)
    assert 'persistentvolumeclaim "data" is being deleted' in refused(where, claiming).message


def test_a_status_without_amounts_asks_for_what_the_spec_does() -> None:
    plain, told = pod("p"), {**pod("p"), "status": {"phase": "Pending", "conditions": []}}
    assert needs_of(told, use_status=True) is needs_of(plain, use_status=False)
    statuses = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    grown = {**told, "status": {**told["status"], "containerStatuses": statuses}}
    assert needs_of(grown, use_status=True).amounts["cpu"] == 3000


@pytest.mark.parametrize(
    ("where", "field", "value"),
    [
        ("metadata", "uid", "another"),
        ("metadata", "labels", {"app": "b"}),
        ("metadata", "deletionTimestamp", "2026-01-01T00:00:00Z"),
        ("spec", "nodeName", "n2"),
        ("spec", "priority", 7),
    ],
)
def test_a_resident_is_still_the_same_until_something_counts(where: str, field: str, value: object) -> None:
    one = pod("p", on="n1")
    here = resident(one)
    assert here.still({**one, "status": {**one["status"], "phase": "Running"}})
    assert not here.still({**one, where: {**one[where], field: value}})


def test_a_resident_takes_what_it_took_until_its_requests_change() -> None:
    one = pod("p", on="n1")
    here, requests = resident(one), one["spec"]["containers"][0]["resources"]["requests"]
    held = {"name": "c", "resources": {"requests": requests, "limits": {"cpu": "9"}}, "allocatedResources": requests}
    assert here.other_needs({**one, "status": {"containerStatuses": [held]}}) is None
    more = {**held, "allocatedResources": {**requests, "cpu": "3"}}
    needs = here.other_needs({**one, "status": {"containerStatuses": [more]}})
    assert needs is not None and needs.amounts["cpu"] == 3000
