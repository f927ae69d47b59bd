"""The same steps with all components in one process and with each in its own: the results must be equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.e2e.parts import Part

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "annotations": {"podfit.dev/resize-policy": "InPlace"}},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "c",
                        "image": "host",
                        "command": ["sleep", "3600"],
                        "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}},
                    }
                ],
            },
        },
    },
}


@pytest.fixture(params=["together", "apart"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    node = ("--node-name", "n1", "--runtime", "fake", "--node-cpu", "2", "--node-memory", "1Gi")
    running = Running(tmp_path, *node)
    if request.param == "together":
        yield running.start()
        running.stop()
        return
    parts = [Part("apiserver", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", ready=True)]
    config = str(running.kubeconfig)
    try:
        parts.append(Part("controllers", "--kubeconfig", str(tmp_path / "controllers.kubeconfig")))
        parts.append(Part("scheduler", "--kubeconfig", str(tmp_path / "scheduler.kubeconfig")))
        parts.append(Part("agent", "--kubeconfig", config, "--data-dir", str(tmp_path / "agent"), *node, ready=True))
        yield running
    finally:
        for part in reversed(parts):
            part.stop()


def shape(cluster: Running) -> list[Any]:
    """Results that must not depend on how the components are run."""
    return sorted(
        [
            pod["status"]["phase"],
            pod["spec"].get("nodeName"),
            pod["status"]["qosClass"],
            pod["status"]["containerStatuses"][0]["restartCount"],
            pod["status"]["containerStatuses"][0]["resources"],
            [condition["type"] for condition in pod["status"]["conditions"]],
        ]
        for pod in cluster.json("get", "pods")["items"]
    )


def test_a_deployment_is_placed_resized_in_place_and_fills_the_node(cluster: Running) -> None:
    eventually(lambda: cluster.json("get", "sa")["items"], "the default service account exists")
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(DEPLOYMENT))
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    before = {pod["metadata"]["uid"] for pod in cluster.json("get", "pods")["items"]}
    cluster.kubectl("set", "resources", "deployment/web", "--requests=cpu=600m,memory=16Mi")

    def resized() -> bool:
        pods = cluster.json("get", "pods")["items"]
        sizes = [(pod["status"].get("containerStatuses") or [{}])[0].get("resources", {}) for pod in pods]
        return len(pods) == 3 and all(size.get("requests", {}).get("cpu") == "600m" for size in sizes)

    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert resized(), "the roll-out ends when all pods have the new size"
    assert {pod["metadata"]["uid"] for pod in cluster.json("get", "pods")["items"]} == before
    conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    wanted = ["Running", "n1", "Burstable", 0, {"requests": {"cpu": "600m", "memory": "16Mi"}}, conditions]
    assert shape(cluster) == [wanted] * 3
    cluster.kubectl("scale", "deployment/web", "--replicas=4")
    waiting = eventually(
        lambda: [
            condition["message"]
            for pod in cluster.json("get", "pods")["items"]
            for condition in pod["status"].get("conditions") or []
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ],
        "the fourth pod finds no room",
    )
    assert waiting[0].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    cluster.kubectl("set", "resources", "deployment/web", "--requests=cpu=300m,memory=16Mi")
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert before < {pod["metadata"]["uid"] for pod in cluster.json("get", "pods")["items"]}
