"""Disruption budgets for pods with owners of every kind, and for pods without one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.registry.kinds import POD, Kind, kind_named

BUDGET, DAEMON, EVENT = map(kind_named, ("PodDisruptionBudget", "DaemonSet", "Event"))
DEFINITION = kind_named("CustomResourceDefinition")
HERD = Kind("example.com", "v1", "Herd", "herds", True)


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as cluster:
        yield cluster


async def budget(whole: Whole, app: str, **spec: Any) -> None:
    body = {"selector": {"matchLabels": {"app": app}}, **spec}
    meta = {"name": app, "namespace": "default"}
    await whole.client.create(
        BUDGET, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": body}
    )


async def pod(whole: Whole, name: str, app: str, **meta: Any) -> None:
    made = {"name": name, "namespace": "default", "labels": {"app": app}, **meta}
    await whole.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": pod_spec()})


async def counted(whole: Whole, name: str, **wanted: int) -> dict[str, Any]:
    def check(obj: Any) -> bool:
        status = (obj or {}).get("status") or {}
        return all(status.get(field) == number for field, number in wanted.items())

    one = await becomes(whole.client, BUDGET, "default", name, check)
    assert one is not None
    return dict(one["status"])


async def failed(whole: Whole, name: str) -> dict[str, Any]:
    def check(obj: Any) -> bool:
        conditions = ((obj or {}).get("status") or {}).get("conditions") or []
        return any(each["reason"] == "SyncFailed" for each in conditions)

    one = await becomes(whole.client, BUDGET, "default", name, check)
    assert one is not None
    return dict(one["status"])


def established(obj: Any) -> bool:
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return ("Established", "True") in [(each["type"], each["status"]) for each in conditions]


async def said(whole: Whole, name: str, reason: str) -> str:
    def about(obj: Any) -> bool:
        return bool(obj["involvedObject"]["name"] == name and obj["reason"] == reason)

    events = await all_become(whole.client, EVENT, "default", lambda all: any(map(about, all)))
    return str(next(event for event in events if about(event))["message"])


async def test_pods_without_a_controller_are_not_counted_but_reported(whole: Whole) -> None:
    for number in range(2):
        await pod(whole, f"free-{number}", "free")
    await budget(whole, "free", maxUnavailable=1)
    status = await counted(whole, "free", currentHealthy=2, expectedPods=0, desiredHealthy=0, disruptionsAllowed=0)
    assert status["conditions"][0]["reason"] == "InsufficientPods" and status["observedGeneration"] == 1
    message = await said(whole, "free", "UnmanagedPods")
    assert message.startswith(
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: free,},"
        "MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result,"
    )


async def test_a_budget_without_pods_reports_it(whole: Whole) -> None:
    await budget(whole, "none", minAvailable="50%")
    await counted(whole, "none", expectedPods=0, disruptionsAllowed=0)
    assert await said(whole, "none", "NoPods") == "No matching pods found"


async def test_the_error_for_owners_without_a_scale_names_their_resource(whole: Whole) -> None:
    await whole.client.create(DAEMON, workload("DaemonSet", "d", None))
    await budget(whole, "d", maxUnavailable=1)
    status = await failed(whole, "d")
    (condition,) = status["conditions"]
    assert condition["message"] == "daemonsets.apps does not implement the scale subresource"
    assert await said(whole, "d", "CalculateExpectedPodCountFailed") == (
        "Failed to calculate the number of expected pods: daemonsets.apps does not implement the scale subresource"
    )


async def test_the_scale_of_a_custom_owner_counts(whole: Whole) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
    }
    names = {"kind": "Herd", "plural": "herds"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    await whole.client.create(DEFINITION, {**body, "metadata": {"name": "herds.example.com"}})
    await becomes(whole.client, DEFINITION, "", "herds.example.com", established)
    herd = {"apiVersion": "example.com/v1", "kind": "Herd", "metadata": {"name": "h", "namespace": "default"}}
    made = await whole.client.create(HERD, {**herd, "spec": {"replicas": 3}})
    owner = {"apiVersion": "example.com/v1", "kind": "Herd", "name": "h", "uid": made["metadata"]["uid"]}
    for number in range(3):
        await pod(whole, f"h-{number}", "herd", ownerReferences=[{**owner, "controller": True}])
    await budget(whole, "herd", maxUnavailable=1)
    await counted(whole, "herd", expectedPods=3, desiredHealthy=2, currentHealthy=3, disruptionsAllowed=1)


async def test_a_missing_owner_is_reported(whole: Whole) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Nothing", "name": "x", "uid": "no-such", "controller": True}
    await pod(whole, "left", "left", ownerReferences=[owner])
    await budget(whole, "left", maxUnavailable=1)
    status = await failed(whole, "left")
    assert status["conditions"][0]["message"] == 'no matches for kind "Nothing" in version "example.com/v1"'
    assert "observedGeneration" not in status and "observedGeneration" not in status["conditions"][0]
