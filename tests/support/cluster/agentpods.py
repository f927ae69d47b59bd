"""Small pods for tests of a node: bound to node1, with a short grace period."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.nodes import Cluster, TestNode

from podfit.api.registry.kinds import POD

SMALL = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}


def container(name: str = "c", command: str = "sleep 1d", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1", "command": ["sh", "-c", command], "resources": SMALL, **more}


def pod(name: str = "p", *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = {
        "nodeName": "node1",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "containers": list(containers) or [container()],
        **spec,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": body}


async def create(cluster: Cluster, node: TestNode, body: dict[str, Any]) -> dict[str, Any]:
    await cluster.client.create(POD, body)
    await node.quiet()
    return await cluster.pod(body["metadata"]["name"])


def states(seen: dict[str, Any], key: str = "containerStatuses") -> dict[str, str]:
    return {entry["name"]: next(iter(entry["state"])) for entry in seen["status"].get(key) or ()}
