"""Choosing a node: scores, reservations for other pods, messages."""

from __future__ import annotations

from tests.support.scheduling import HOST, PREFERRED, REQUIRED, ZONE, board, chosen, node, pod, refused

from podfit.scheduler.decide.fit.rules import MOST_ALLOCATED
from podfit.scheduler.decide.preempt import NoRoom, preempt


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


def test_running_pods_attract_pods_by_their_preferred_affinity() -> None:
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


def test_nodes_excluded_by_name_are_distinguished() -> None:
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


def test_room_reserved_for_a_pod_of_higher_priority_is_not_given_away() -> None:
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


def test_a_pod_with_a_missing_claim_fits_no_node_until_it_exists() -> None:
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
