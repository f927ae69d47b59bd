"""Cgroups that another program has changed: noticed in the next check, reported, and not overwritten."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.runtimes.values import LimitsChange
from podfit.api.registry.kinds import POD

SIZE = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}


async def pod(cluster: Cluster, node: TestNode, resources: dict[str, Any]) -> str:
    """Runs the pod and returns the ID of its container."""
    container = {"name": "c", "image": "busybox:1", "command": ["sleep", "1d"], "resources": resources}
    spec = {"nodeName": "node1", "automountServiceAccountToken": False, "containers": [container]}
    meta = {"name": "p", "namespace": "default"}
    made = await cluster.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await node.quiet()
    (container_id,) = node.machine.pods[made["metadata"]["uid"]].containers
    return container_id


async def looked(cluster: Cluster, node: TestNode) -> dict[str, Any]:
    """The status after the next check."""
    await node.agent.drift.check()
    await node.quiet()
    shown: dict[str, Any] = (await cluster.pod("p"))["status"]["containerStatuses"][0]["resources"]
    return shown


async def reports(cluster: Cluster) -> list[str]:
    return [event["message"] for event in await cluster.events() if event["reason"] == "CgroupChanged"]


async def test_a_limit_written_by_hand_appears_in_the_status_and_in_one_event(cluster: Cluster, node: TestNode) -> None:
    container_id = await pod(cluster, node, SIZE)
    await node.runtime.update_container(container_id, LimitsChange(cpu_quota_us=20_000, memory_bytes=96 << 20))
    expected = {"requests": SIZE["requests"], "limits": {"cpu": "200m", "memory": "96Mi"}}
    assert await looked(cluster, node) == expected
    assert await looked(cluster, node) == expected
    assert await reports(cluster) == [
        "Container c: the cgroup has cpu request 100m, cpu limit 200m, memory limit 96Mi, but "
        "cpu request 100m, cpu limit 500m, memory limit 128Mi were set"
    ]
    assert not [
        condition for condition in (await cluster.pod("p"))["status"]["conditions"] if "Resize" in condition["type"]
    ]


async def test_the_next_resize_sets_what_a_hand_has_changed(cluster: Cluster, node: TestNode) -> None:
    container_id = await pod(cluster, node, SIZE)
    await node.runtime.update_container(container_id, LimitsChange(cpu_quota_us=20_000))
    assert (await looked(cluster, node))["limits"]["cpu"] == "200m"
    larger = {**SIZE, "requests": {"cpu": "150m", "memory": "64Mi"}}
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": larger}]}})
    await node.quiet()
    assert await looked(cluster, node) == larger
    assert len(await reports(cluster)) == 1


async def test_a_limit_removed_by_hand_is_reported(cluster: Cluster, node: TestNode) -> None:
    container_id = await pod(cluster, node, SIZE)
    await node.runtime.update_container(container_id, LimitsChange(memory_bytes=-1))
    await looked(cluster, node)
    (message,) = await reports(cluster)
    assert "memory limit none, but " in message


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": "1m", "memory": "5001"}, "limits": {"cpu": "5m", "memory": "16777217"}},
        {"limits": {"cpu": "100m", "memory": "64Mi"}},
        {},
    ],
    ids=["below the kernel's minimums", "limits only", "nothing"],
)
async def test_rounding_by_the_kernel_is_not_a_change(
    resources: dict[str, Any], cluster: Cluster, node: TestNode
) -> None:
    await pod(cluster, node, resources)
    before = (await cluster.pod("p"))["status"]["containerStatuses"][0]["resources"]
    assert await looked(cluster, node) == before
    assert await reports(cluster) == []


async def test_a_resize_that_fails_is_not_taken_for_a_change(cluster: Cluster, node: TestNode) -> None:
    await pod(cluster, node, SIZE)
    node.runtime.set_load((await cluster.pod("p"))["metadata"]["uid"], "c", memory=float(100 << 20))
    smaller = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": smaller}]}})
    await node.quiet()
    assert await looked(cluster, node) == SIZE
    assert await reports(cluster) == []
