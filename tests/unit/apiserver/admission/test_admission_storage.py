"""Plugins for volumes, claims and classes: defaults, protection, growth."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.claim_resize import PersistentVolumeClaimResize
from podfit.apiserver.admission.default_classes import (
    INGRESS_CLASS,
    STORAGE_CLASS,
    DefaultIngressClass,
    DefaultStorageClass,
)
from podfit.apiserver.admission.device_admin_access import LABEL, DeviceAdminAccess
from podfit.apiserver.admission.in_use_protection import StorageObjectInUseProtection
from podfit.apiserver.admission.nodes.pod_topology_labels import PodTopologyLabels

CLAIM, VOLUME, ATTRIBUTES, INGRESS = map(
    kind_named, ("PersistentVolumeClaim", "PersistentVolume", "VolumeAttributesClass", "Ingress")
)
DEVICES, TEMPLATE, NAMESPACE = map(kind_named, ("ResourceClaim", "ResourceClaimTemplate", "Namespace"))
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def claim(size: str = "1Gi", phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    body = {"resources": {"requests": {"storage": size}}, **spec}
    return {"metadata": {"name": "c", "namespace": "ns"}, "spec": body, "status": {"phase": phase}}


def mark(cluster, kind, name: str, made: str = "2026-01-01T00:00:00Z", value: str = "true", **fields: Any) -> None:
    word = "storageclass" if kind == STORAGE_CLASS else "ingressclass"
    annotations = {f"{word}.kubernetes.io/is-default-class": value}
    meta = {"name": name, "creationTimestamp": made, "annotations": annotations}
    cluster.put(kind, {"metadata": meta, **fields})


@pytest.mark.parametrize(
    ("kind", "finalizer"),
    [
        (CLAIM, "kubernetes.io/pvc-protection"),
        (VOLUME, "kubernetes.io/pv-protection"),
        (ATTRIBUTES, "kubernetes.io/vac-protection"),
    ],
)
async def test_new_storage_is_protected_once(write, kind, finalizer):
    for given, kept in (([], [finalizer]), (["a.io/b"], ["a.io/b", finalizer]), ([finalizer], [finalizer])):
        attrs = write({"metadata": {"name": "x", "finalizers": given}}, kind=kind)
        await StorageObjectInUseProtection().admit(attrs)
        assert attrs.object["metadata"]["finalizers"] == kept


async def test_a_claim_without_a_class_gets_the_newest_default(cluster, write):
    mark(cluster, STORAGE_CLASS, "a", "2026-01-02T00:00:00Z")
    mark(cluster, STORAGE_CLASS, "b", "2026-01-03T00:00:00Z")
    mark(cluster, STORAGE_CLASS, "c", "2026-01-03T00:00:00Z")
    mark(cluster, STORAGE_CLASS, "d", "2026-01-04T00:00:00Z", "false")
    attrs = write(claim(), kind=CLAIM)
    await DefaultStorageClass(cluster).admit(attrs)
    assert attrs.object["spec"]["storageClassName"] == "b"


async def test_a_claim_that_names_a_class_or_none_on_purpose_keeps_it(cluster, write):
    mark(cluster, STORAGE_CLASS, "a")
    none = write(claim(storageClassName=""), kind=CLAIM)
    older = write(claim(), kind=CLAIM)
    older.object["metadata"]["annotations"] = {OLD_CLASS: "x"}
    for attrs in (none, older):
        await DefaultStorageClass(cluster).admit(attrs)
    assert none.object["spec"]["storageClassName"] == ""
    assert "storageClassName" not in older.object["spec"]


async def test_an_ingress_gets_the_default_class(cluster, write):
    attrs = write({"metadata": {"name": "i", "namespace": "ns"}, "spec": {}}, kind=INGRESS)
    await DefaultIngressClass(cluster).admit(attrs)
    assert attrs.object["spec"] == {}
    mark(cluster, INGRESS_CLASS, "web")
    await DefaultIngressClass(cluster).admit(attrs)
    assert attrs.object["spec"] == {"ingressClassName": "web"}


async def test_a_claim_grows_when_it_is_bound_and_its_class_allows_it(cluster, write):
    cluster.put(STORAGE_CLASS, {"metadata": {"name": "grows"}, "allowVolumeExpansion": True})
    cluster.put(STORAGE_CLASS, {"metadata": {"name": "stays"}})
    resize = PersistentVolumeClaimResize(cluster)

    async def grow(phase: str, name: str, size: str = "2Gi") -> None:
        old = claim(phase=phase, storageClassName=name)
        await resize.validate(write(claim(size, phase, storageClassName=name), kind=CLAIM, old=old))

    await grow("Bound", "grows")
    await grow("Pending", "stays", "1Gi")
    with pytest.raises(ApiError, match='"c" is forbidden: Only bound persistent volume claims can be expanded'):
        await grow("Pending", "grows")
    for name in ("stays", "absent", ""):
        with pytest.raises(ApiError, match="only dynamically provisioned pvc can be resized"):
            await grow("Bound", name)


async def test_pods_carry_zone_and_region_of_their_node(cluster, write, pod):
    labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"}
    cluster.put(NODE, {"metadata": {"name": "n", "labels": labels}})
    wanted = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    plugin = PodTopologyLabels(cluster)
    bound = write(pod(nodeName="n"))
    binding = write({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}, subresource="binding")
    elsewhere, nowhere = write(pod(nodeName="absent")), write(pod())
    for attrs in (bound, binding, elsewhere, nowhere):
        assert attrs.kind == POD and plugin.handles(attrs)
        await plugin.admit(attrs)
    assert bound.object["metadata"]["labels"] == binding.object["metadata"]["labels"] == wanted
    assert "labels" not in elsewhere.object["metadata"] and "labels" not in nowhere.object["metadata"]


async def test_devices_are_claimed_for_administration_in_labelled_namespaces_only(cluster, write):
    requests = [{"name": "a", "exactly": {}}, {"name": "b", "exactly": {"adminAccess": True}}]
    spec = {"devices": {"requests": requests}}
    plain = write({"metadata": {"name": "x", "namespace": "ns"}, "spec": spec}, kind=DEVICES)
    template = write({"metadata": {"name": "x", "namespace": "ns"}, "spec": {"spec": spec}}, kind=TEMPLATE)
    for attrs in (plain, template):
        with pytest.raises(
            ApiError, match=r"spec.devices.requests\[1\].adminAccess: Forbidden: admin access"
        ) as caught:
            await DeviceAdminAccess(cluster).validate(attrs)
        assert caught.value.code == 422
    cluster.put(NAMESPACE, {"metadata": {"name": "ns", "labels": {LABEL: "true"}}})
    for attrs in (plain, template):
        await DeviceAdminAccess(cluster).validate(attrs)
