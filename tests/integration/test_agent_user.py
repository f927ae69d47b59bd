"""The status reports the user that a running container was started as."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.api.registry.kinds import POD


async def started(cluster: Cluster, node: TestNode, command: str, pod: Any, container: Any) -> dict[str, Any]:
    one = {"name": "c", "image": "busybox:1", "command": ["sh", "-c", command], "securityContext": container}
    spec = {
        "nodeName": "node1",
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": pod,
        "containers": [one],
    }
    meta = {"name": "p", "namespace": "default"}
    await cluster.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await node.quiet()
    return await shown(cluster)


async def shown(cluster: Cluster) -> dict[str, Any]:
    statuses: list[dict[str, Any]] = (await cluster.pod("p"))["status"]["containerStatuses"]
    return statuses[0]


async def test_user_group_and_further_groups_are_shown_while_it_runs(cluster: Cluster) -> None:
    node = await cluster.node()
    pod = {"runAsUser": 1, "runAsGroup": 3000, "supplementalGroups": [4000], "fsGroup": 5000}
    seen = await started(cluster, node, "sleep 5", pod, {"runAsUser": 1000})
    assert seen["user"] == {"linux": {"uid": 1000, "gid": 3000, "supplementalGroups": [3000, 4000, 5000]}}
    await node.pass_time(6)
    seen = await shown(cluster)
    assert "terminated" in seen["state"] and "user" not in seen


async def test_a_user_without_groups_is_in_the_group_of_root(cluster: Cluster) -> None:
    seen = await started(cluster, await cluster.node(), "sleep 1d", {}, {"runAsUser": 0})
    assert seen["user"] == {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [0]}}


async def test_an_unset_user_is_not_reported(cluster: Cluster) -> None:
    seen = await started(cluster, await cluster.node(), "sleep 1d", {"supplementalGroups": [4000]}, {})
    assert "running" in seen["state"] and "user" not in seen


@pytest.mark.parametrize(
    ("security", "image_user", "why"),
    [
        ({"runAsUser": 0}, "1000", "container's runAsUser breaks non-root policy"),
        ({}, "", "container has runAsNonRoot and image will run as root"),
        ({}, "0:5", "container has runAsNonRoot and image will run as root"),
        (
            {},
            "app:staff",
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
        ),
    ],
)
async def test_a_container_that_must_not_be_root_is_refused(
    cluster: Cluster, security: dict[str, Any], image_user: str, why: str
) -> None:
    node = await cluster.node()
    node.machine.image_users["busybox:1"] = image_user
    seen = await started(cluster, node, "sleep 1d", {"runAsNonRoot": True}, security)
    uid = (await cluster.pod("p"))["metadata"]["uid"]
    message = f'{why} (pod: "p_default({uid})", container: c)'
    assert seen["state"] == {"waiting": {"reason": "CreateContainerConfigError", "message": message}}


@pytest.mark.parametrize(("security", "image_user"), [({"runAsUser": 5}, ""), ({}, "1000:1000")])
async def test_a_container_that_is_not_root_runs(cluster: Cluster, security: dict[str, Any], image_user: str) -> None:
    node = await cluster.node()
    node.machine.image_users["busybox:1"] = image_user
    seen = await started(cluster, node, "sleep 1d", {"runAsNonRoot": True}, security)
    assert "running" in seen["state"]
