"""Objects in use outlive their deletion: claims, volumes, attribute classes and ServiceCIDRs."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.controllers.protection.claims import used_by
from podfit.controllers.protection.ranges import networks_of

CLAIM, VOLUME, ATTRIBUTES, RANGE, SERVICE = map(
    kind_named, ("PersistentVolumeClaim", "PersistentVolume", "VolumeAttributesClass", "ServiceCIDR", "Service")
)


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as cluster:
        yield cluster


async def make(whole: Whole, kind: str, name: str, **fields: Any) -> Object:
    of = kind_named(kind)
    body = {"apiVersion": of.api_version, "kind": kind, "metadata": {"name": name}, **fields}
    return await whole.client.create(of, body, "default" if of.namespaced else "")


def in_phase(phase: str) -> Callable[[Object], bool]:
    return lambda obj: (obj.get("status") or {}).get("phase") == phase


def gone(obj: Object | None) -> bool:
    return obj is None


def kept(obj: Object | None) -> bool:
    return obj is not None and bool(obj["metadata"].get("deletionTimestamp"))


def claim(**more: Any) -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **more}


async def test_a_claim_goes_when_no_pod_on_a_node_mounts_it(whole: Whole) -> None:
    for name in ("used", "free"):
        await make(whole, "PersistentVolumeClaim", name, spec=claim())
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]
    await make(whole, "Pod", "p", spec=pod_spec(volumes=volumes))
    await whole.client.delete(CLAIM, "default", "used")
    await whole.client.delete(CLAIM, "default", "free")
    await becomes(whole.client, CLAIM, "default", "free", gone)
    assert kept(await whole.client.find(CLAIM, "default", "used"))
    await whole.client.delete(POD, "default", "p", {"gracePeriodSeconds": 0})
    await becomes(whole.client, CLAIM, "default", "used", gone)


async def test_a_volume_goes_when_it_is_not_bound_any_more(whole: Whole) -> None:
    path = {"hostPath": {"path": "/srv"}}
    await make(
        whole, "PersistentVolume", "v", spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **path}
    )
    await becomes(whole.client, VOLUME, "", "v", in_phase("Available"))
    claimed = await make(whole, "PersistentVolumeClaim", "c", spec=claim(volumeName="v"))
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": claimed["metadata"]["uid"],
    }
    await whole.client.patch(VOLUME, "", "v", {"spec": {"claimRef": reference}})
    await becomes(whole.client, VOLUME, "", "v", in_phase("Bound"))
    await whole.client.delete(VOLUME, "", "v")
    assert kept(await whole.client.find(VOLUME, "", "v"))
    await whole.client.delete(CLAIM, "default", "c")
    await becomes(whole.client, VOLUME, "", "v", gone)


async def test_an_attribute_class_goes_with_the_last_claim_that_names_it(whole: Whole) -> None:
    await make(whole, "VolumeAttributesClass", "fast", driverName="d.io", parameters={"iops": "9"})
    await make(whole, "PersistentVolumeClaim", "c", spec=claim(volumeAttributesClassName="fast"))
    await whole.client.delete(ATTRIBUTES, "", "fast")
    assert kept(await whole.client.find(ATTRIBUTES, "", "fast"))
    await whole.client.delete(CLAIM, "default", "c")
    await becomes(whole.client, ATTRIBUTES, "", "fast", gone)


async def test_a_protected_object_that_lost_its_finalizer_gets_it_back(whole: Whole) -> None:
    await make(whole, "PersistentVolumeClaim", "c", spec=claim())
    await whole.client.patch(CLAIM, "default", "c", {"metadata": {"finalizers": None}})
    protected = lambda obj: obj["metadata"].get("finalizers") == ["kubernetes.io/pvc-protection"]  # noqa: E731
    await becomes(whole.client, CLAIM, "default", "c", protected)


async def test_a_range_is_ready_and_stays_while_it_alone_has_the_address_of_a_service(whole: Whole) -> None:
    (own,) = (await whole.client.list(RANGE))["items"]
    assert own["metadata"]["name"] == "kubernetes"
    (net,) = networks_of(own)
    await make(whole, "ServiceCIDR", "more", spec={"cidrs": ["10.201.0.0/24"]})
    ready = await becomes(
        whole.client, RANGE, "", "more", lambda obj: bool((obj.get("status") or {}).get("conditions"))
    )
    assert ready["metadata"]["finalizers"] == ["networking.k8s.io/service-cidr-finalizer"]
    assert ready["status"]["conditions"][0]["message"] == "Kubernetes Service CIDR is ready"

    await whole.client.delete(RANGE, "", "kubernetes")
    reported = lambda obj: obj["status"]["conditions"][-1]["reason"] == "Terminating"  # noqa: E731
    held = await becomes(whole.client, RANGE, "", "kubernetes", reported)
    assert held["status"]["conditions"][-1]["status"] == "False"
    assert any(True for _ in networks_of(held)) and net.version == 4


def test_a_generic_volume_uses_only_the_claim_that_was_made_for_its_pod() -> None:
    meta = {"name": "p", "uid": "u", "namespace": "ns"}
    pod: Object = {"metadata": meta, "spec": {"nodeName": "n", "volumes": [{"name": "v", "ephemeral": {}}]}}
    owner = {"uid": "u", "controller": True}
    made: Object = {"metadata": {"name": "p-v", "ownerReferences": [owner]}}
    assert used_by(made, [pod])
    assert not used_by({"metadata": {"name": "p-v"}}, [pod])
    done = {**meta, "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    assert not used_by(made, [{**pod, "metadata": done}])
    assert not used_by(made, [{**pod, "spec": {**pod["spec"], "nodeName": ""}}])
