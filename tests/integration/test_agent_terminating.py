"""Resizing a pod in its graceful shutdown: permitted, and applied as long as its containers run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.runtimes.values import RUNNING, Limits
from podfit.api.registry.kinds import POD


def size(cpu: str, memory: str = "64Mi") -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def pod(name: str, cpu: str, **container: Any) -> dict[str, Any]:
    """Ignores SIGTERM: it runs to the end of its grace period."""
    body = {"name": "c", "image": "busybox:1", "command": ["sleep", "1d"], "resources": size(cpu), **container}
    annotations = {"podfit.dev/fake-stop": "ignore"}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {
        "nodeName": "node1",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 60,
        "containers": [body],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def deleting(cluster: Cluster, node: TestNode, body: dict[str, Any]) -> dict[str, Any]:
    """The pod in the middle of its grace period."""
    name = body["metadata"]["name"]
    await cluster.client.create(POD, body)
    await node.quiet()
    await cluster.client.delete(POD, "default", name)
    await node.pass_time(1)
    seen = await cluster.pod(name)
    assert "running" in seen["status"]["containerStatuses"][0]["state"]
    return seen


async def resize(cluster: Cluster, node: TestNode, name: str, cpu: str, memory: str = "64Mi") -> dict[str, Any]:
    await cluster.resize(name, {"spec": {"containers": [{"name": "c", "resources": size(cpu, memory)}]}})
    await node.quiet()
    return await cluster.pod(name)


def limits(node: TestNode, uid: str) -> list[Limits]:
    return [entry.limits for entry in node.machine.pods[uid].containers.values() if entry.state == RUNNING]


def resizing(seen: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [
        (condition["type"], condition.get("reason", ""), condition["observedGeneration"])
        for condition in seen["status"]["conditions"]
        if condition["type"].startswith("PodResize")
    ]


def in_progress(node: TestNode) -> float | None:
    return node.agent.metrics.registry.get_sample_value("kubelet_pod_in_progress_resizes")


def pending(node: TestNode, reason: str) -> float | None:
    return node.agent.metrics.registry.get_sample_value("kubelet_pod_pending_resizes", {"reason": reason})


async def reported(cluster: Cluster, name: str) -> list[str]:
    """The Events about its resizes, oldest first."""
    listed = sorted(await cluster.events(), key=lambda event: int(event["metadata"]["resourceVersion"]))
    found = [event for event in listed if event["involvedObject"]["name"] == name]
    return [event["reason"] for event in found if event["reason"].startswith("Resize")]


async def test_a_resize_of_a_terminating_pod_is_applied_and_reported(cluster: Cluster, node: TestNode) -> None:
    before = await deleting(cluster, node, pod("p", "100m"))
    seen = await resize(cluster, node, "p", "300m", "128Mi")
    shown = seen["status"]["containerStatuses"][0]
    assert limits(node, seen["metadata"]["uid"]) == [Limits(307, 30_000, 128 << 20)]
    assert shown["allocatedResources"] == {"cpu": "300m", "memory": "128Mi"}
    assert shown["resources"] == size("300m", "128Mi")
    assert seen["status"]["observedGeneration"] == seen["metadata"]["generation"] > before["metadata"]["generation"]
    assert resizing(seen) == []
    assert await reported(cluster, "p") == ["ResizeStarted", "ResizeCompleted"]
    assert in_progress(node) == 0


async def test_a_terminating_pod_that_requests_too_much_reports_it(cluster: Cluster, node: TestNode) -> None:
    await deleting(cluster, node, pod("p", "100m"))
    seen = await resize(cluster, node, "p", "50")
    assert resizing(seen) == [("PodResizePending", "Infeasible", seen["metadata"]["generation"])]
    assert seen["status"]["observedGeneration"] == seen["metadata"]["generation"]


async def test_a_resize_that_was_deferred_before_the_deletion_is_retried(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.create(POD, pod("other", "1500m"))
    await cluster.client.create(POD, pod("p", "100m"))
    await node.quiet()
    seen = await resize(cluster, node, "p", "1")
    assert [reason for _, reason, _ in resizing(seen)] == ["Deferred"]
    await cluster.client.delete(POD, "default", "p")
    await node.quiet()
    assert [reason for _, reason, _ in resizing(await cluster.pod("p"))] == ["Deferred"]

    await resize(cluster, node, "other", "500m")
    seen = await cluster.pod("p")
    assert resizing(seen) == []
    assert limits(node, seen["metadata"]["uid"])[0].cpu_quota_us == 100_000
    assert seen["status"]["containerStatuses"][0]["resources"] == size("1")


async def test_room_released_by_a_terminating_pod_goes_to_pending_resizes(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.create(POD, pod("p", "100m"))
    await deleting(cluster, node, pod("other", "1500m"))
    assert [reason for _, reason, _ in resizing(await resize(cluster, node, "p", "1"))] == ["Deferred"]
    await resize(cluster, node, "other", "500m")
    assert (await cluster.pod("p"))["status"]["containerStatuses"][0]["resources"] == size("1")


async def test_a_terminating_pod_keeps_its_memory_and_says_what_is_used(cluster: Cluster, node: TestNode) -> None:
    before = await deleting(cluster, node, pod("p", "100m"))
    node.runtime.set_load(before["metadata"]["uid"], "c", memory=float(48 << 20))
    seen = await resize(cluster, node, "p", "100m", "32Mi")
    assert resizing(seen) == [("PodResizeInProgress", "Error", seen["metadata"]["generation"])]
    assert limits(node, seen["metadata"]["uid"])[0].memory_bytes == 64 << 20

    node.runtime.set_load(before["metadata"]["uid"], "c", memory=float(16 << 20))
    await node.quiet()
    seen = await cluster.pod("p")
    assert resizing(seen) == []
    assert limits(node, seen["metadata"]["uid"])[0].memory_bytes == 32 << 20


async def test_no_container_of_a_terminating_pod_is_restarted_for_its_size(cluster: Cluster, node: TestNode) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    before = await deleting(cluster, node, pod("p", "100m", resizePolicy=policy))
    uid = before["metadata"]["uid"]
    seen = await resize(cluster, node, "p", "300m")
    assert len(node.machine.pods[uid].containers) == 1
    assert resizing(seen) == [("PodResizeInProgress", "", seen["metadata"]["generation"])]
    await node.pass_time(70)
    assert await cluster.client.find(POD, "default", "p") is None
    assert in_progress(node) == 0


async def test_a_new_agent_applies_what_a_terminating_pod_requested(cluster: Cluster, node: TestNode) -> None:
    await deleting(cluster, node, pod("p", "100m"))
    await node.stop()
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": size("300m")}]}})
    await node.restart()
    seen = await cluster.pod("p")
    assert limits(node, seen["metadata"]["uid"])[0].cpu_quota_us == 30_000
    assert seen["status"]["containerStatuses"][0]["resources"] == size("300m")


async def test_a_pod_that_has_ended_takes_any_size_without_waiting(cluster: Cluster, node: TestNode) -> None:
    body = pod("p", "100m", command=["sh", "-c", "exit 0"])
    body["spec"]["restartPolicy"] = "Never"
    await cluster.client.create(POD, body)
    await node.pass_time(2)
    seen = await resize(cluster, node, "p", "50")
    assert seen["status"]["phase"] == "Succeeded"
    assert resizing(seen) == []
    assert await reported(cluster, "p") == ["ResizeStarted"]
    assert not pending(node, "infeasible")


@pytest.mark.parametrize("grace_s", [None, 0], ids=["gracefully", "at once"])
@pytest.mark.parametrize("restarted", [False, True], ids=["same agent", "new agent"])
async def test_a_pod_that_is_deleted_leaves_no_resize_behind_in_the_metrics(
    grace_s: int | None, restarted: bool, cluster: Cluster, node: TestNode
) -> None:
    await cluster.client.create(POD, pod("other", "1"))
    for name in ("deferred", "infeasible", "failing"):
        await cluster.client.create(POD, pod(name, "100m"))
    await node.quiet()
    uid = (await cluster.pod("failing"))["metadata"]["uid"]
    node.runtime.set_load(uid, "c", memory=float(48 << 20))
    assert resizing(await resize(cluster, node, "deferred", "1500m"))[0][1] == "Deferred"
    assert resizing(await resize(cluster, node, "infeasible", "50"))[0][1] == "Infeasible"
    assert resizing(await resize(cluster, node, "failing", "100m", "16Mi"))[0][1] == "Error"
    if restarted:
        await node.restart()
    assert (pending(node, "deferred"), pending(node, "infeasible"), in_progress(node)) == (1, 1, 1)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace_s}
    for name in ("deferred", "infeasible", "failing"):
        await cluster.client.delete(POD, "default", name, options if grace_s is not None else None)
    await node.pass_time(70)
    assert await cluster.client.find(POD, "default", "failing") is None
    assert not (pending(node, "deferred") or pending(node, "infeasible") or in_progress(node))
