"""Small pods for the tests of a node: bound to node1, quick to end."""

from __future__ import annotations

from typing import Any

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
