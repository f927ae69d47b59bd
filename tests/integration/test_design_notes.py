"""Notes of the designs of 2020 and 2021 for the node: memory-backed volumes, and pod overhead in every fit."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError

STRATEGIC = "application/strategic-merge-patch+json"


# --- volumes in memory


def with_volume(policy: dict[str, str], *command: str) -> dict[str, Any]:
    one = {
        "name": "c",
        "image": "busybox",
        "command": list(command),
        "resources": {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}},
        "resizePolicy": [{"resourceName": "memory", **policy}],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    }
    volumes = [{"name": "cache", "emptyDir": {"medium": "Memory"}}]
    spec = {"nodeName": "n1", "automountServiceAccountToken": False, "containers": [one], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


class Cached:
    """A pod whose container has written a file to its memory-backed volume."""

    def __init__(self, cluster: Cluster, node: TestNode, namespace: str) -> None:
        self.cluster, self.node, self.path = cluster, node, f"/api/v1/namespaces/{namespace}/pods"
        self.ask = Asker(cluster.server)

    async def start(self, body: dict[str, Any]) -> None:
        code, pod = await self.ask("POST", self.path, body)
        assert code == 201, pod
        await self.node.pass_time(2)
        uid = pod["metadata"]["uid"]
        volume = body["spec"]["volumes"][0]
        self.file = self.node.agent.volumes.path(uid, volume) / "file"
        self.file.write_text("cached")

    async def resize(self, subresource: str = "") -> None:
        resources = {"requests": {"memory": "96Mi"}, "limits": {"memory": "96Mi"}}
        body = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        code, answer = await self.ask("PATCH", f"{self.path}/p{subresource}", body, STRATEGIC)
        assert code == 200, answer
        await self.node.pass_time(5)

    async def restarts(self) -> int:
        _, pod = await self.ask("GET", f"{self.path}/p")
        return int(pod["status"]["containerStatuses"][0]["restartCount"])


async def cached(cluster: Cluster, dialect: str, policy: dict[str, str], *command: str) -> Cached:
    namespace = "old" if dialect else "default"
    if dialect:
        await cluster.namespace("old", dialect)
    node = await cluster.node("n1", on_disk=True, capacity={"cpu": "2", "memory": "4Gi"})
    made = Cached(cluster, node, namespace)
    await made.start(with_volume(policy, *(command or ("sh", "-c", "trap 'exit 0' TERM; sleep 1d"))))
    return made


async def test_2020_a_volume_in_memory_is_empty_after_a_restart_for_a_resize(cluster: Cluster) -> None:
    made = await cached(cluster, "2020", {"policy": "RestartContainer"})
    await made.resize()
    assert await made.restarts() == 1
    assert made.file.parent.is_dir() and not made.file.exists()


async def test_2020_a_volume_in_memory_keeps_its_files_when_nothing_restarts(cluster: Cluster) -> None:
    made = await cached(cluster, "2020", {"policy": "NoRestart"})
    await made.resize()
    assert await made.restarts() == 0
    assert made.file.exists()


async def test_natively_a_volume_in_memory_lives_as_long_as_the_pod(cluster: Cluster) -> None:
    made = await cached(cluster, "", {"restartPolicy": "RestartContainer"})
    await made.resize("/resize")
    assert await made.restarts() == 1
    assert made.file.exists()


async def test_a_container_that_crashes_finds_its_volume_in_memory_as_it_was(cluster: Cluster) -> None:
    made = await cached(cluster, "2020", {"policy": "RestartContainer"}, "sh", "-c", "sleep 10; exit 1")
    await made.node.pass_time(15)
    assert await made.restarts() == 1
    assert made.file.exists()


# --- overhead


async def with_overhead(cluster: Cluster) -> None:
    handler = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "heavy"},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "500m"}},
    }
    await cluster.client.create(kind_named("RuntimeClass"), handler)


def heavy(name: str, cpu: str, node: str = "n1") -> dict[str, Any]:
    one = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    spec = {"runtimeClassName": "heavy", "automountServiceAccountToken": False, "containers": [one]}
    bound = {"nodeName": node} if node else {}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**spec, **bound}}


def asking(cpu: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


async def test_the_node_adds_overhead_to_a_new_pod_and_to_a_resize(cluster: Cluster) -> None:
    await with_overhead(cluster)
    node = await cluster.node("n1", capacity={"cpu": "2", "memory": "4Gi"})
    await cluster.client.create(POD, heavy("fits", "1"))
    await cluster.client.create(POD, heavy("too-large", "600m"))
    await node.pass_time(2)
    refused = (await cluster.pod("too-large"))["status"]
    assert (refused["phase"], refused["reason"]) == ("Failed", "OutOfcpu")
    await cluster.resize("fits", asking("1500m"))
    await node.pass_time(2)
    status = (await cluster.pod("fits"))["status"]
    assert status["containerStatuses"][0]["allocatedResources"]["cpu"] == "1500m"
    await cluster.resize("fits", asking("1600m"))
    await node.pass_time(2)
    conditions = {condition["type"]: condition for condition in (await cluster.pod("fits"))["status"]["conditions"]}
    assert conditions["PodResizePending"]["message"] == (
        "Node didn't have enough capacity: cpu, requested: 2100, capacity: 2000"
    )


async def test_quota_counts_overhead_of_a_new_pod_and_of_a_resize(cluster: Cluster) -> None:
    await with_overhead(cluster)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"requests.cpu": "2"}},
    }
    kind = kind_named("ResourceQuota")
    made = await cluster.client.create(kind, quota)
    made["status"] = {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "0"}}
    await cluster.client.update(kind, made, "status")
    with pytest.raises(ApiError, match="exceeded quota: q, requested: requests.cpu=2100m"):
        await cluster.client.create(POD, heavy("large", "1600m", node=""))
    await cluster.client.create(POD, heavy("p", "1", node=""))
    found = await cluster.client.get(kind, "default", "q")
    assert found["status"]["used"]["requests.cpu"] == "1500m"
    with pytest.raises(ApiError, match="exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=1500m"):
        await cluster.resize("p", asking("1600m"))
