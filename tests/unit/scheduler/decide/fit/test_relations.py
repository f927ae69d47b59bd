"""Nodes that affinity, anti-affinity and spread constraints rule out."""

from __future__ import annotations

from typing import Any

import numpy as np

from podfit.api.objects import Object
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.reasons import Code
from podfit.scheduler.decide.fit.relations import Relations
from podfit.scheduler.decide.pod.pods import resident, shape_of

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def cluster(*pods: Object) -> Snapshot:
    snapshot = Snapshot()
    for name, zone in (("a", "x"), ("b", "x"), ("c", "y")):
        labels = {HOST: name, ZONE: zone}
        snapshot.put_node({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": {}}})
    for pod in pods:
        snapshot.put_pod(resident(pod))
    return snapshot


def pod(name: str, on: str = "", app: str = "web", **spec: Any) -> Object:
    meta = {"name": name, "namespace": "ns", "uid": name, "labels": {"app": app}}
    return {"metadata": meta, "spec": {"containers": [{"name": "c"}], "nodeName": on, **spec}, "status": {}}


def term(kind: str, key: str, app: str = "web") -> Object:
    return {"affinity": {kind: {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}}


def refused(snapshot: Snapshot, asked: Object) -> dict[str, Code]:
    everything = np.ones(snapshot.capacity, np.bool_)
    codes = Relations(shape_of(asked, snapshot.holders.selected_keys), snapshot).codes(lambda: (everything, everything))
    return {name: Code(codes[row]) for name, row in snapshot.rows.items() if codes[row]}


def test_anti_affinity_rules_out_the_whole_domain() -> None:
    snapshot = cluster(pod("p", "a"))
    assert refused(snapshot, pod("q", **term("podAntiAffinity", ZONE))) == dict.fromkeys("ab", Code.ANTI_AFFINITY)
    assert refused(snapshot, pod("q", **term("podAntiAffinity", HOST))) == {"a": Code.ANTI_AFFINITY}


def test_running_pods_keep_others_away_too() -> None:
    snapshot = cluster(pod("p", "c", **term("podAntiAffinity", ZONE)))
    assert refused(snapshot, pod("q")) == {"c": Code.EXISTING_ANTI_AFFINITY}
    assert refused(snapshot, pod("q", app="other")) == {}


def test_affinity_leaves_the_domains_of_matching_pods() -> None:
    snapshot = cluster(pod("p", "c"))
    assert refused(snapshot, pod("q", **term("podAffinity", ZONE))) == dict.fromkeys("ab", Code.AFFINITY)


def test_a_first_pod_with_affinity_to_its_own_kind_may_go_anywhere() -> None:
    assert refused(cluster(), pod("q", **term("podAffinity", ZONE))) == {}
    assert set(refused(cluster(), pod("q", **term("podAffinity", ZONE, "db")))) == {"a", "b", "c"}


def test_a_hard_spread_rules_out_domains_with_too_many() -> None:
    spread = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}}
    snapshot = cluster(pod("p", "a"))
    asked = pod("q", topologySpreadConstraints=[spread])
    assert refused(snapshot, asked) == dict.fromkeys("ab", Code.SPREAD)
    soft = pod("q", topologySpreadConstraints=[{**spread, "whenUnsatisfiable": "ScheduleAnyway"}])
    assert refused(snapshot, soft) == {}
