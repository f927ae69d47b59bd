"""The design of 2020 on an API server: the spec's `resourcesAllocated`, and who may change it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.expect import becomes
from tests.support.cluster.nodes import Cluster
from tests.support.cluster.whole import Whole

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.apiserver.request import ADMIN, User

NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
OTHER = User("system:node:n2", ("system:nodes", "system:authenticated"))
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
PODS = "/api/v1/namespaces/old/pods"
SUPPORTED = 'supported values: "NoRestart", "RestartContainer"'
NEVER = "must be 'NoRestart' when `restartPolicy` is 'Never'"
RUNNING = {"running": {"startedAt": "2020-01-14T00:00:00Z"}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as made:
        await made.namespace("old", "2020")
        yield made


def manifest(cpu: str = "1", name: str = "p", **container: Any) -> Object:
    one = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}, **container}
    return {"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [one]}}


def is_running(pod: Object | None) -> bool:
    return ((pod or {}).get("status") or {}).get("phase") == "Running"


def container_of(pod: Object) -> Object:
    return dict(pod["spec"]["containers"][0])


async def running(ask: Asker, body: Object | None = None) -> Object:
    """A pod whose node has reported its status."""
    code, pod = await ask("POST", PODS, body or manifest())
    assert code == 201, pod
    one = {"name": "c", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0, "state": RUNNING}
    one["resources"] = container_of(pod)["resources"]
    status = {"phase": "Running", "containerStatuses": [one]}
    code, pod = await ask("PATCH", f"{PODS}/p/status", {"status": status}, MERGE, user=NODE)
    assert code == 200, pod
    return dict(pod)


async def resize(ask: Asker, cpu: str, user: User = ADMIN) -> tuple[int, Any]:
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    return await ask("PATCH", f"{PODS}/p", patch, STRATEGIC, user=user)


async def allocate(ask: Asker, user: User, **amounts: str) -> tuple[int, Any]:
    patch = {"spec": {"containers": [{"name": "c", "resourcesAllocated": amounts}]}}
    return await ask("PATCH", f"{PODS}/p", patch, STRATEGIC, user=user)


async def test_a_new_pod_has_what_it_requests_allocated(cluster: Cluster) -> None:
    code, pod = await Asker(cluster.server)("POST", PODS, manifest("1"))
    assert (code, container_of(pod)["resourcesAllocated"]) == (201, {"cpu": "1", "memory": "64Mi"})


async def test_a_new_pod_that_claims_another_allocation_is_forbidden(cluster: Cluster) -> None:
    code, answer = await Asker(cluster.server)("POST", PODS, manifest("1", resourcesAllocated={"cpu": "3"}))
    assert (code, answer["message"]) == (
        403,
        'pods "p" is forbidden: resourcesAllocated of a new pod must be what its containers request',
    )


async def test_a_resize_leaves_the_allocation_until_the_node_accepts_it(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await running(ask)
    code, pod = await resize(ask, "2")
    one = container_of(pod)
    assert (code, one["resources"]["requests"]["cpu"], one["resourcesAllocated"]["cpu"]) == (200, "2", "1")
    assert "resize" not in pod["status"]
    code, pod = await allocate(ask, NODE, cpu="2", memory="64Mi")
    assert (code, container_of(pod)["resourcesAllocated"]) == (200, {"cpu": "2", "memory": "64Mi"})
    assert pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] == "1"


async def test_only_the_node_may_change_the_allocation(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await running(ask)
    code, answer = await allocate(ask, ADMIN, cpu="2", memory="64Mi")
    found = 'pods "p" is forbidden: only the node of the pod may change resourcesAllocated'
    assert (code, answer["message"]) == (403, found)


async def test_another_node_may_not_change_the_allocation(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await running(ask)
    code, _ = await allocate(ask, OTHER, cpu="2", memory="64Mi")
    assert code == 403


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
        {"spec": {"containers": [{"name": "c", "image": "other"}]}},
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": {"activeDeadlineSeconds": 60}},
    ],
    ids=["resources", "image", "labels", "deadline"],
)
async def test_the_node_may_update_nothing_but_the_allocation(cluster: Cluster, change: Object) -> None:
    ask = Asker(cluster.server)
    await running(ask)
    code, answer = await ask("PATCH", f"{PODS}/p", change, STRATEGIC, user=NODE)
    found = 'pods "p" is forbidden: node "n1" can only update the field resourcesAllocated of containers'
    assert (code, answer["message"]) == (403, found)


async def test_the_node_may_allocate_nothing_but_cpu_and_memory(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await running(ask)
    code, answer = await allocate(ask, NODE, **{"cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Gi"})
    found = 'pods "p" is forbidden: node "n1" can only update resourcesAllocated for cpu and memory'
    assert (code, answer["message"]) == (403, found)


async def test_a_node_may_not_update_pods_of_a_native_namespace(cluster: Cluster) -> None:
    await cluster.namespace("new")
    body = manifest()
    await Asker(cluster.server)("POST", "/api/v1/namespaces/new/pods", body)
    patch = {"spec": {"containers": [{"name": "c", "resourcesAllocated": {"cpu": "2"}}]}}
    code, _ = await Asker(cluster.server)("PATCH", "/api/v1/namespaces/new/pods/p", patch, STRATEGIC, user=NODE)
    assert code == 403


@pytest.mark.parametrize("how", ["absent", "null"])
async def test_an_older_client_that_does_not_send_the_new_fields_drops_nothing(cluster: Cluster, how: str) -> None:
    ask = Asker(cluster.server)
    policy = [{"resourceName": "cpu", "policy": "NoRestart"}, {"resourceName": "memory", "policy": "RestartContainer"}]
    await running(ask, manifest(resizePolicy=policy))
    await resize(ask, "2")
    await allocate(ask, NODE, cpu="1500m", memory="64Mi")
    pod = (await ask("GET", f"{PODS}/p"))[1]
    for field in ("resourcesAllocated", "resizePolicy"):
        if how == "absent":
            del pod["spec"]["containers"][0][field]
        else:
            pod["spec"]["containers"][0][field] = None
    pod["metadata"]["labels"] = {"touched": "yes"}
    code, answer = await ask("PUT", f"{PODS}/p", pod)
    one = container_of(answer)
    assert (code, answer["metadata"]["labels"]) == (200, {"touched": "yes"})
    assert (one["resourcesAllocated"], one["resizePolicy"]) == ({"cpu": "1500m", "memory": "64Mi"}, policy)


async def test_the_resize_subresource_is_not_found(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await running(ask)
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    code, answer = await ask("PATCH", f"{PODS}/p/resize", patch, STRATEGIC)
    assert (code, answer["message"]) == (404, "the server could not find the requested resource")


@pytest.mark.parametrize(
    ("word", "restart", "message"),
    [
        ("Restart", "Always", 'Unsupported value: "Restart": supported values: "NoRestart", "RestartContainer"'),
        (
            "NotRequired",
            "Always",
            'Unsupported value: "NotRequired": supported values: "NoRestart", "RestartContainer"',
        ),
        (
            "RestartContainer",
            "Never",
            f'Invalid value: "RestartContainer": {NEVER}',
        ),
    ],
)
async def test_a_policy_that_the_design_does_not_allow_is_refused(
    cluster: Cluster, word: str, restart: str, message: str
) -> None:
    body = manifest(resizePolicy=[{"resourceName": "cpu", "policy": word}])
    body["spec"]["restartPolicy"] = restart
    code, answer = await Asker(cluster.server)("POST", PODS, body)
    assert (code, answer["message"]) == (422, f'Pod "p" is invalid: spec.containers[0].resizePolicy: {message}')


async def test_only_cpu_and_memory_can_be_changed_by_a_user(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await running(ask)
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}}
    code, answer = await ask("PATCH", f"{PODS}/p", patch, STRATEGIC)
    assert code == 422 and "`spec.containers[*].resources` (for CPU/memory only)" in answer["message"]


async def test_the_class_of_a_pod_cannot_change(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await running(ask)
    sizes = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}
    patch = {"spec": {"containers": [{"name": "c", "resources": sizes}]}}
    code, answer = await ask("PATCH", f"{PODS}/p", patch, STRATEGIC)
    found = 'Pod "p" is invalid: metadata: Invalid value: "Burstable": Pod QoS is immutable'
    assert (code, answer["message"]) == (422, found)


def limit_range() -> Object:
    limits = {"type": "Container", "min": {"cpu": "500m"}, "max": {"cpu": "2"}}
    return {"metadata": {"name": "l"}, "spec": {"limits": [limits]}}


@pytest.mark.parametrize(("cpu", "code"), [("1500m", 200), ("3", 403), ("100m", 403)])
async def test_a_resize_is_held_to_the_limit_ranges_of_the_namespace(cluster: Cluster, cpu: str, code: int) -> None:
    ask = Asker(cluster.server)
    await ask("POST", "/api/v1/namespaces/old/limitranges", limit_range())
    body = manifest()
    body["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "2"}
    await running(ask, body)
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]}}
    assert (await ask("PATCH", f"{PODS}/p", patch, STRATEGIC))[0] == code


@pytest.mark.parametrize(("cpu", "code"), [("1500m", 200), ("3", 403)])
async def test_a_resize_is_held_to_the_quota_of_the_namespace(tmp_path: Path, cpu: str, code: int) -> None:
    async with Whole(tmp_path, nodes=0) as whole:
        await whole.namespace("old", "2020")
        ask, quota = Asker(whole.up.server), kind_named("ResourceQuota")
        await ask(
            "POST",
            "/api/v1/namespaces/old/resourcequotas",
            {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "2"}}},
        )
        await becomes(whole.client, quota, "old", "q", lambda obj: bool((obj or {}).get("status", {}).get("used")))
        await running(ask)
        answered, answer = await resize(ask, cpu)
        assert answered == code, answer


async def test_a_node_that_restarts_admits_its_pods_at_what_is_allocated(cluster: Cluster) -> None:
    """The second pod fits only at its allocation, not at its request."""
    node = await cluster.node("n1", capacity={"cpu": "2", "memory": "1Gi", "pods": "10"})
    ask = Asker(cluster.server)
    for name in ("p", "q"):
        await ask("POST", PODS, manifest("800m", name))
    await node.quiet()
    await resize(ask, "1500m")
    await node.quiet()
    await node.restart()
    await node.quiet()
    pods = {item["metadata"]["name"]: item for item in (await ask("GET", PODS))[1]["items"]}
    assert {name: obj["status"]["phase"] for name, obj in pods.items()} == {"p": "Running", "q": "Running"}
    one = container_of(pods["p"])
    assert (one["resources"]["requests"]["cpu"], one["resourcesAllocated"]["cpu"]) == ("1500m", "800m")


async def test_a_resize_that_does_not_fit_is_retried_until_it_does(cluster: Cluster) -> None:
    node = await cluster.node("n1", capacity={"cpu": "2", "memory": "1Gi", "pods": "10"})
    ask = Asker(cluster.server)
    for name in ("p", "q"):
        await ask("POST", PODS, manifest("800m", name))
    await node.quiet()
    await resize(ask, "1500m")
    await node.quiet()
    await ask("DELETE", f"{PODS}/q", {"gracePeriodSeconds": 0})
    await node.quiet()
    pod = (await ask("GET", f"{PODS}/p"))[1]
    assert container_of(pod)["resourcesAllocated"]["cpu"] == "1500m"
    assert pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] == "1500m"


async def test_a_new_pod_gets_the_room_that_a_waiting_resize_does_not_have(tmp_path: Path) -> None:
    """The scheduler counts allocations: the pod that waits for 1800m holds 500m of the node's 2 CPUs."""
    async with Whole(tmp_path, node_capacity={"cpu": "2", "memory": "1Gi"}) as whole:
        await whole.namespace("old", "2020")
        ask = Asker(whole.up.server)
        first, second = manifest("500m", "p"), manifest("500m", "q")
        for body in (first, second):
            del body["spec"]["nodeName"]
            await ask("POST", PODS, body)
            name = body["metadata"]["name"]
            await becomes(whole.client, POD, "old", name, is_running)
        await resize(ask, "1800m")
        third = manifest("900m", "r")
        del third["spec"]["nodeName"]
        await ask("POST", PODS, third)
        await becomes(whole.client, POD, "old", "r", lambda pod: bool((pod or {}).get("spec", {}).get("nodeName")))


async def test_resizes_are_handled_in_the_order_of_their_arrival(cluster: Cluster) -> None:
    """The pod whose resize arrived first gets the capacity, although the other pod has a higher priority."""
    node = await cluster.node("n1", capacity={"cpu": "3", "memory": "1Gi", "pods": "10"})
    ask = Asker(cluster.server)
    await ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    for name in ("p", "important", "third"):
        body = manifest("1", name)
        if name == "important":
            body["spec"]["priorityClassName"] = "high"
        assert (await ask("POST", PODS, body))[0] == 201
    await node.quiet()
    for name in ("p", "important"):
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
        await ask("PATCH", f"{PODS}/{name}", patch, STRATEGIC)
        await node.quiet()
    await ask("DELETE", f"{PODS}/third", {"gracePeriodSeconds": 0})
    await node.quiet()
    shown = {item["metadata"]["name"]: container_of(item) for item in (await ask("GET", PODS))[1]["items"]}
    assert {name: entry["resourcesAllocated"]["cpu"] for name, entry in shown.items()} == {"p": "2", "important": "1"}


async def test_resizes_that_follow_each_other_end_at_the_latest(cluster: Cluster) -> None:
    node = await cluster.node("n1")
    ask = Asker(cluster.server)
    await ask("POST", PODS, manifest("100m"))
    await node.quiet()
    for cpu in ("200m", "300m", "150m"):
        await resize(ask, cpu)
    await node.quiet()
    pod = (await ask("GET", f"{PODS}/p"))[1]
    assert container_of(pod)["resourcesAllocated"]["cpu"] == "150m"
    assert pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] == "150m"


async def test_an_actor_evicts_a_pod_whose_resize_waits_too_long(cluster: Cluster) -> None:
    """The allocation still differs from the request: an actor needs no more information."""
    node = await cluster.node("n1", capacity={"cpu": "1", "memory": "1Gi", "pods": "10"})
    ask = Asker(cluster.server)
    await ask("POST", PODS, manifest("100m"))
    await node.quiet()
    await resize(ask, "5")
    await node.quiet()
    one = container_of((await ask("GET", f"{PODS}/p"))[1])
    assert one["resources"]["requests"]["cpu"] != one["resourcesAllocated"]["cpu"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    code, _ = await ask("POST", f"{PODS}/p/eviction", eviction)
    assert code == 201


async def test_a_new_pod_that_has_no_room_beside_a_resized_one_is_rejected_by_the_node(cluster: Cluster) -> None:
    node = await cluster.node("n1", capacity={"cpu": "2", "memory": "1Gi", "pods": "10"})
    ask = Asker(cluster.server)
    await ask("POST", PODS, manifest("1"))
    await node.quiet()
    await resize(ask, "1500m")
    await node.quiet()
    await ask("POST", PODS, manifest("1", "late"))
    await node.quiet()
    status = (await ask("GET", f"{PODS}/late"))[1]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")


async def test_the_resources_of_init_containers_cannot_be_changed(cluster: Cluster) -> None:
    ask, body = Asker(cluster.server), manifest()
    body["spec"]["initContainers"] = [{"name": "i", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    await ask("POST", PODS, body)
    patch = {"spec": {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]}}
    code, answer = await ask("PATCH", f"{PODS}/p", patch, STRATEGIC)
    assert (code, answer["reason"]) == (422, "Invalid"), answer
