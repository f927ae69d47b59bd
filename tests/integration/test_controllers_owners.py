"""Quota, ownership, taints and tokens against the real API server and agents on fake machines."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload
from tests.support.cluster.workloads import Pods, in_force, messages, names_of, status_of

from podfit.api.registry.kinds import NAMESPACE, NODE, POD, kind_named
from podfit.api.selectors import LabelSelector
from podfit.client.rest import STRATEGIC
from podfit.compose import make_controller_context
from podfit.controllers.workloads.ownership import Owned
from podfit.kit.clock import RealClock

SET, CONTROLLER, QUOTA, ACCOUNT, SECRET, CONFIG = map(
    kind_named, ("ReplicaSet", "ReplicationController", "ResourceQuota", "ServiceAccount", "Secret", "ConfigMap")
)


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as cluster:
        yield cluster


def quota(**hard: str) -> dict[str, Any]:
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    meta = {"name": "q", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": named}}


async def test_quota_is_released_when_a_pod_shrinks(whole: Whole) -> None:
    await whole.client.create(QUOTA, quota(requests_cpu="1"))
    await becomes(whole.client, QUOTA, "default", "q", lambda obj: bool(status_of(obj).get("hard")))
    await whole.client.create(SET, workload("ReplicaSet", "rs", 1, pod=pod_spec(cpu="800m")))
    pod = (await all_become(whole.client, POD, "default", in_force("800m", 1)))[0]
    await becomes(whole.client, QUOTA, "default", "q", lambda obj: status_of(obj)["used"]["requests.cpu"] == "800m")
    change = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "300m"}}}]}}
    name = pod["metadata"]["name"]
    await whole.client.patch(POD, "default", name, change, subresource="resize", content_type=STRATEGIC)
    await becomes(whole.client, QUOTA, "default", "q", lambda obj: status_of(obj)["used"]["requests.cpu"] == "300m")


async def test_a_replication_controller_keeps_its_pods(whole: Whole) -> None:
    body = workload("ReplicationController", "rc", 2)
    body["apiVersion"], body["spec"]["selector"] = "v1", {"app": "rc"}
    await whole.client.create(CONTROLLER, body)
    await becomes(
        whole.client, CONTROLLER, "default", "rc", lambda controller: status_of(controller).get("readyReplicas") == 2
    )
    await whole.client.patch(CONTROLLER, "default", "rc", {"spec": {"replicas": 1}})
    await becomes(
        whole.client, CONTROLLER, "default", "rc", lambda controller: status_of(controller).get("replicas") == 1
    )
    await all_become(whole.client, POD, "default", lambda pods: len(pods) == 1)


async def test_a_toleration_that_runs_out_lets_the_pod_go(whole: Whole) -> None:
    brief = [{"key": "out", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]
    for name, tolerations in (("brief", brief), ("steady", [{"key": "out", "operator": "Exists"}])):
        meta = {"name": name, "namespace": "default"}
        spec = pod_spec(tolerations=tolerations)
        await whole.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await all_become(whole.client, POD, "default", in_force("100m", 2))
    await whole.client.patch(NODE, "", "n1", {"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}})
    left = await all_become(whole.client, POD, "default", lambda pods: len(pods) == 1)
    assert left[0]["metadata"]["name"] == "steady"


async def test_sets_with_the_same_selector_leave_each_other_their_pods(whole: Whole) -> None:
    first, second = workload("ReplicaSet", "a", 2), workload("ReplicaSet", "b", 2)
    second["spec"]["selector"] = first["spec"]["selector"]
    second["spec"]["template"]["metadata"] = first["spec"]["template"]["metadata"]
    for body in (first, second):
        await whole.client.create(SET, body)
    pods = await all_become(whole.client, POD, "default", in_force("100m", 4))
    owners = sorted(pod["metadata"]["ownerReferences"][0]["name"] for pod in pods)
    assert owners == ["a", "a", "b", "b"] and all(len(pod["metadata"]["ownerReferences"]) == 1 for pod in pods)


async def test_orphans_wanted_by_two_sets_get_one_owner_each(whole: Whole) -> None:
    for number in range(6):
        meta = {"name": f"p{number}", "namespace": "default", "labels": {"app": "a"}}
        await whole.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()})
    first, second = workload("ReplicaSet", "a", 3), workload("ReplicaSet", "b", 3)
    second["spec"]["selector"] = first["spec"]["selector"]
    second["spec"]["template"]["metadata"] = first["spec"]["template"]["metadata"]
    for body in (first, second):
        await whole.client.create(SET, body)

    def shared(pods: Pods) -> bool:
        owners = [[reference["name"] for reference in pod["metadata"].get("ownerReferences") or []] for pod in pods]
        return sorted(owners) == [["a"]] * 3 + [["b"]] * 3

    await all_become(whole.client, POD, "default", shared)


async def test_of_two_owners_that_adopt_at_the_same_moment_one_gets_the_pod(tmp_path: Path) -> None:
    async with Whole(tmp_path, controllers=False, scheduler=False) as bare:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await bare.client.create(kind_named("ServiceAccount"), account, "default")
        meta = {"name": "p", "namespace": "default", "labels": {"app": "a"}}
        await bare.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()})
        sets = [await bare.client.create(SET, workload("ReplicaSet", name, 1)) for name in ("a", "b")]
        world = make_controller_context(bare.client, RealClock())
        owned = [Owned(world, SET) for _ in sets]
        await world.informers.start()
        try:
            selector = LabelSelector.from_object({"matchLabels": {"app": "a"}})
            taken = await asyncio.gather(*(of.of(entry, selector) for of, entry in zip(owned, sets, strict=True)))
        finally:
            await world.informers.stop()
        pod = await bare.client.get(POD, "default", "p")
        assert sorted(map(len, taken)) == [0, 1]
        assert [reference["name"] for reference in pod["metadata"]["ownerReferences"]] == ["a" if taken[0] else "b"]


# --- tokens


async def test_a_secret_for_a_token_is_filled_and_goes_with_its_account(whole: Whole) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}}
    made = await whole.client.create(ACCOUNT, account)
    named = {"kubernetes.io/service-account.name": "robot"}
    meta = {"name": "t", "namespace": "default", "annotations": named}
    body = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": meta}
    await whole.client.create(SECRET, body)
    secret = await becomes(whole.client, SECRET, "default", "t", lambda obj: "token" in (obj or {}).get("data", {}))
    assert secret is not None and set(secret["data"]) == {"ca.crt", "namespace", "token"}
    assert secret["metadata"]["annotations"] == {**named, "kubernetes.io/service-account.uid": made["metadata"]["uid"]}
    assert base64.b64decode(secret["data"]["namespace"]) == b"default"
    token = base64.b64decode(secret["data"]["token"]).decode()

    async def reviewed() -> dict[str, Any]:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await whole.client.raw("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body=review)
        return dict(answer["status"])

    assert (await reviewed())["user"]["username"] == "system:serviceaccount:default:robot"
    # A field that a user empties is filled again.
    await whole.client.patch(SECRET, "default", "t", {"data": {"ca.crt": None}})
    await becomes(whole.client, SECRET, "default", "t", lambda obj: "ca.crt" in (obj or {})["data"])
    await whole.client.delete(ACCOUNT, "default", "robot")
    await becomes(whole.client, SECRET, "default", "t", lambda obj: obj is None)
    assert "authenticated" not in await reviewed()


async def test_a_token_secret_without_its_account_is_deleted(whole: Whole) -> None:
    meta = {"name": "t", "namespace": "default", "annotations": {"kubernetes.io/service-account.name": "nobody"}}
    body = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": meta}
    await whole.client.create(SECRET, body)
    await becomes(whole.client, SECRET, "default", "t", lambda secret: secret is None)


# --- owners


async def test_objects_that_own_each_other_in_a_circle_go_together(whole: Whole) -> None:
    names = ("one", "two", "three")
    made = {name: await whole.client.create(CONFIG, {"metadata": {"name": name}}, "default") for name in names}
    for name, owner in zip(names, ("three", "one", "two"), strict=True):
        uid = made[owner]["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": True}
        await whole.client.patch(CONFIG, "default", name, {"metadata": {"ownerReferences": [reference]}})
    await whole.client.delete(CONFIG, "default", "one", {"propagationPolicy": "Foreground"})
    await all_become(whole.client, CONFIG, "default", lambda left: names_of(left).isdisjoint(names))


async def test_an_owner_of_another_namespace_or_name_does_not_count(whole: Whole) -> None:
    def config(name: str, owner: dict[str, Any] | None = None, called: str = "owner") -> dict[str, Any]:
        meta: dict[str, Any] = {"name": name, "namespace": "default" if owner else "kube-system"}
        if owner:
            uid = owner["metadata"]["uid"]
            meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": called, "uid": uid}]
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}

    far = await whole.client.create(CONFIG, config("owner"))
    near = await whole.client.create(CONFIG, {**config("owner"), "metadata": {"name": "near", "namespace": "default"}})
    await whole.client.create(CONFIG, config("good", near, "near"))
    await whole.client.create(CONFIG, config("misnamed", near, "other"))
    await whole.client.create(CONFIG, config("cross", far))
    await all_become(whole.client, CONFIG, "default", lambda all: names_of(all).isdisjoint({"cross", "misnamed"}))
    assert {"good", "near"} <= names_of((await whole.client.list(CONFIG, "default"))["items"])
    where = f"[v1/ConfigMap, namespace: default, name: owner, uid: {far['metadata']['uid']}]"
    said = f'ownerRef {where} does not exist in namespace "default"'
    events = await all_become(whole.client, kind_named("Event"), "default", lambda all: said in messages(all))
    (event,) = [entry for entry in events if entry["message"] == said]
    assert (event["type"], event["reason"]) == ("Warning", "OwnerRefInvalidNamespace")
    assert event["source"]["component"] == "garbage-collector-controller"
    assert await whole.client.find(CONFIG, "kube-system", "owner") is not None


async def test_a_terminating_namespace_reports_what_it_waits_for(whole: Whole) -> None:
    def condition(obj: Any, word: str) -> tuple[str, str] | None:
        found = [each for each in status_of(obj).get("conditions") or () if each["type"] == word]
        return (found[0]["status"], found[0]["message"]) if found else None

    client, meta = whole.client, {"name": "kept", "namespace": "n", "finalizers": ["a.b/c"]}
    space = await client.create(NAMESPACE, {"metadata": {"name": "n"}})
    await client.update(NAMESPACE, {**space, "spec": {"finalizers": ["kubernetes", "x.y/z"]}}, "finalize")
    await client.create(CONFIG, {"metadata": meta})
    await client.delete(NAMESPACE, "", "n")
    held = ("True", "Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances")
    await becomes(
        client, NAMESPACE, "", "n", lambda namespace: condition(namespace, "NamespaceFinalizersRemaining") == held
    )
    await client.patch(CONFIG, "n", "kept", {"metadata": {"finalizers": None}})
    empty = ("False", "All content successfully removed")
    await becomes(
        client, NAMESPACE, "", "n", lambda namespace: condition(namespace, "NamespaceContentRemaining") == empty
    )
    one = await client.get(NAMESPACE, "", "n")
    assert one["spec"]["finalizers"] == ["x.y/z"]


async def test_finalizers_that_protect_a_pod_are_removed_after_it_in_a_deleted_namespace(whole: Whole) -> None:
    """CVE-2024-7598."""
    client = whole.client
    await whole.namespace("n")
    await client.create(CONFIG, {"metadata": {"name": "policy", "namespace": "n"}})
    meta = {"name": "p", "namespace": "n", "finalizers": ["a.b/c"]}
    await client.create(POD, {"metadata": meta, "spec": pod_spec()})
    await client.delete(NAMESPACE, "", "n")

    def waits(obj: Any) -> bool:
        rows = {row["type"]: row["message"] for row in status_of(obj).get("conditions") or ()}
        return rows.get("NamespaceContentRemaining") == "Some resources are remaining: pods. has 1 resource instances"

    await becomes(client, NAMESPACE, "", "n", waits)
    assert "deletionTimestamp" not in (await client.get(CONFIG, "n", "policy"))["metadata"]
    await client.patch(POD, "n", "p", {"metadata": {"finalizers": None}})
    await becomes(client, NAMESPACE, "", "n", lambda namespace: namespace is None)
