"""Fields whose feature gates are off by default: dropped unless the stored object has them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from podfit.api.objects import freeze
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.strategy import strategy_for

PLAIN = {"containers": [{"name": "c", "image": "x"}]}
SIGNAL = {"os": {"name": "linux"}, "containers": [{"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGUSR1"}}]}
GROUP = {**PLAIN, "schedulingGroup": {"podGroupName": "g"}}


def projecting(**source: Any) -> dict[str, Any]:
    return {**PLAIN, "volumes": [{"name": "v", "projected": {"sources": [source]}}]}


BUNDLE = projecting(clusterTrustBundle={"name": "b", "path": "p"})
CERTIFICATE = projecting(podCertificate={"signerName": "a/b", "keyType": "RSA3072"})
TEMPLATES = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}


def with_spec(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    obj: dict[str, Any] = {"spec": spec}
    for key in reversed(TEMPLATES.get(kind, ())):
        obj = {key: obj}
    return {"metadata": {"name": "w", "namespace": "d", "uid": "u"}, **copy.deepcopy(obj)}


def spec_of(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    for key in (*TEMPLATES.get(kind, ()), "spec"):
        obj = obj[key]
    return obj


def created(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    strategy, obj = strategy_for(kind_named(kind)), with_spec(kind, spec)
    strategy.default(obj)
    strategy.prepare_create(obj)
    return obj


def updated(kind: str, stored: dict[str, Any], spec: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    strategy, old, new = strategy_for(kind_named(kind)), with_spec(kind, stored), with_spec(kind, spec)
    for obj in (old, new):
        strategy.default(obj)
    strategy.prepare_update(new, old, subresource)
    return new


@pytest.mark.parametrize("kind", ["Pod", *TEMPLATES])
@pytest.mark.parametrize("spec", [SIGNAL, GROUP, BUNDLE, CERTIFICATE])
def test_a_field_behind_a_closed_gate_is_dropped_from_new_objects(kind: str, spec: dict[str, Any]) -> None:
    found = spec_of(kind, created(kind, spec))
    assert "schedulingGroup" not in found
    assert "lifecycle" not in found["containers"][0]
    assert all(volume["projected"]["sources"] == [{}] for volume in found.get("volumes", ()))


@pytest.mark.parametrize("kind", ["Pod", *TEMPLATES])
def test_a_field_that_the_stored_object_has_is_kept(kind: str) -> None:
    spec = {**SIGNAL, "schedulingGroup": {"podGroupName": "g"}, "volumes": BUNDLE["volumes"]}
    found = spec_of(kind, updated(kind, spec, spec))
    assert found["schedulingGroup"] == {"podGroupName": "g"}
    assert found["containers"][0]["lifecycle"] == {"stopSignal": "SIGUSR1"}
    assert found["volumes"][0]["projected"]["sources"] == BUNDLE["volumes"][0]["projected"]["sources"]


@pytest.mark.parametrize("kind", ["Pod", *TEMPLATES])
def test_an_update_does_not_add_the_field(kind: str) -> None:
    assert "lifecycle" not in spec_of(kind, updated(kind, PLAIN, SIGNAL))["containers"][0]


def test_other_hooks_stay_when_the_signal_is_dropped() -> None:
    hooks = {"preStop": {"sleep": {"seconds": 1}}, "stopSignal": "SIGTERM"}
    found = created("Pod", {"containers": [{"name": "c", "image": "x", "lifecycle": hooks}]})
    assert found["spec"]["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 1}}}


def status_update(status: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    new, old = with_spec("Pod", PLAIN) | {"status": status}, with_spec("Pod", PLAIN) | {"status": stored}
    strategy_for(kind_named("Pod")).prepare_update(new, old, "status")
    found: dict[str, Any] = new["status"]
    return found


def test_a_status_takes_no_digests_of_volumes_and_no_claims_of_allocatable_resources() -> None:
    mount = {"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": "i"}}}
    status = {
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "r"}],
        "containerStatuses": [{"name": "c", "volumeMounts": [mount]}],
    }
    found = status_update(copy.deepcopy(status), {})
    assert found == {"containerStatuses": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}
    assert status_update(copy.deepcopy(status), status) == status


def test_a_stateful_set_takes_no_max_unavailable() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    strategy = strategy_for(kind_named("StatefulSet"))
    obj: dict[str, Any] = with_spec("StatefulSet", PLAIN)
    obj["spec"]["updateStrategy"] = rolling
    strategy.default(obj)
    stored = copy.deepcopy(obj)
    strategy.prepare_create(obj)
    assert obj["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}
    changed = copy.deepcopy(stored)
    changed["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 3
    strategy.prepare_update(changed, stored)
    assert changed["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 3, "the stored set has one"


def claim(**spec: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"metadata": {"name": "w", "namespace": "d"}, "spec": spec}
    strategy = strategy_for(kind_named("PersistentVolumeClaim"))
    strategy.default(obj)
    strategy.prepare_create(obj)
    return {key: obj["spec"].get(key) for key in ("dataSource", "dataSourceRef")}


def test_a_claim_takes_no_source_in_another_namespace() -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "p"}
    assert claim(dataSourceRef={**source, "namespace": "e"}) == {"dataSource": None, "dataSourceRef": None}
    filled = {"apiGroup": None, **source}
    assert claim(dataSourceRef=source) == {"dataSource": filled, "dataSourceRef": source}
    assert claim(dataSource=source) == {"dataSource": source, "dataSourceRef": filled}


def test_a_claim_keeps_an_unknown_source_that_its_reference_repeats() -> None:
    source = {"apiGroup": "g", "kind": "K", "name": "n"}
    both = {"dataSource": source, "dataSourceRef": source}
    assert claim(dataSource=source, dataSourceRef=source) == claim(dataSourceRef=source) == both
    assert claim(dataSource=source) == {"dataSource": None, "dataSourceRef": None}


def test_the_two_sources_of_a_claim_must_agree() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "w", "namespace": "d"}}
    other = {"apiGroup": "g", "kind": "K", "name": "n"}
    obj["spec"] = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "p"}, "dataSourceRef": other}
    strategy = strategy_for(kind_named("PersistentVolumeClaim"))
    assert "spec: Invalid value: {}: must match dataSourceRef" in [str(each) for each in strategy.validate(obj)]


def test_an_update_copies_the_source_of_a_claim_to_the_other_field() -> None:
    source = {"apiGroup": "g", "kind": "K", "name": "n"}
    strategy = strategy_for(kind_named("PersistentVolumeClaim"))
    old: dict[str, Any] = {"metadata": {"name": "w"}, "spec": {"dataSource": source, "dataSourceRef": source}}
    new: dict[str, Any] = {"metadata": {"name": "w"}, "spec": {"dataSource": source}}
    strategy.prepare_update(new, old)
    assert new["spec"]["dataSourceRef"] == source


def test_parts_that_an_update_shares_with_the_stored_pod_are_not_modified() -> None:
    stored = with_spec("Pod", {**PLAIN, "volumes": [{"name": "v", "projected": {"sources": [{"secret": {}}]}}]})
    stored["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 1}}}
    old = freeze(stored)
    new = {**old, "metadata": dict(old["metadata"]), "spec": dict(old["spec"])}
    strategy_for(kind_named("Pod")).prepare_update(new, old, "ephemeralcontainers")
    assert new["spec"] == old["spec"]
