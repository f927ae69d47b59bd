"""The demo's objects: a web service, its load generator, a memory-hungry worker, and an autoscaler for two of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from podfit.api.objects import Object

NAMESPACE = "demo"
PROGRAMS = Path(__file__).parent / "programs"
SMALL, LARGE = {"cpu": "100m", "memory": "48Mi"}, {"cpu": "300m", "memory": "96Mi"}
"""The sizes that the demo's manual resizes cycle through."""

FAKE_LOADS = {
    "web": {"podfit.dev/fake-cpu": "sine:40m..380m:40", "podfit.dev/fake-memory": "constant:20Mi"},
    "load": {"podfit.dev/fake-cpu": "sine:10m..80m:40", "podfit.dev/fake-memory": "constant:14Mi"},
    "worker": {"podfit.dev/fake-cpu": "constant:30m", "podfit.dev/fake-memory": "sine:24Mi..100Mi:50"},
}
"""On the fake runtime, usage is set by annotations on the pods."""


def resources(cpu: str, memory: str, cpu_limit: str, memory_limit: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu_limit, "memory": memory_limit}}


def deployment(name: str, size: Object, port: int, real: bool, **environment: str) -> Object:
    container: dict[str, Any] = {
        "name": name,
        "image": "host",
        "command": [sys.executable, "-B", str(PROGRAMS / f"{name}.py")] if real else ["sleep", "2147483"],
        "env": [{"name": key, "value": value} for key, value in {"PORT": str(port), **environment}.items()],
        "resources": size,
        "resizePolicy": [{"resourceName": resource, "restartPolicy": "NotRequired"} for resource in ("cpu", "memory")],
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False}
    if real:
        # The load generator reaches the web service at the host's loopback address.
        spec["hostNetwork"] = True
    labels = {"app": name}
    annotations = {} if real else FAKE_LOADS[name]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
        },
    }


def autoscaler(name: str, least: Object, most: Object) -> Object:
    policy = {"containerName": "*", "minAllowed": least, "maxAllowed": most, "controlledValues": "RequestsAndLimits"}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
            "resourcePolicy": {"containerPolicies": [policy]},
        },
    }


def deployments(port: int, real: bool) -> list[Object]:
    return [
        deployment("web", resources("100m", "64Mi", "500m", "128Mi"), port, real),
        deployment("load", resources(SMALL["cpu"], SMALL["memory"], "400m", "128Mi"), port, real),
        deployment("worker", resources("50m", "64Mi", "200m", "192Mi"), port, real),
    ]


def autoscalers() -> list[Object]:
    return [
        autoscaler("web", {"cpu": "50m", "memory": "48Mi"}, {"cpu": "800m", "memory": "256Mi"}),
        autoscaler("worker", {"cpu": "50m", "memory": "48Mi"}, {"cpu": "400m", "memory": "384Mi"}),
    ]
