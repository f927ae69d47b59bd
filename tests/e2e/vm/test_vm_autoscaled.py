"""A VM under the vertical autoscaler: it grows and shrinks with its guest's usage, and is never restarted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.vms import GUEST, guest_archive, needs_vms, podfit, share_cache

pytestmark = [pytest.mark.slow, needs_vms, pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")]
MIB = 1 << 20
PATIENCE_S = 180.0
QUICK = (
    ("--vpa-recommender", "recommender-interval=1s"),
    ("--vpa-recommender", "pod-recommendation-min-memory-mb=16"),
    ("--vpa-recommender", "confidence-interval-cpu=3s"),
    ("--vpa-recommender", "confidence-interval-memory=3s"),
    ("--vpa-recommender", "memory-aggregation-interval=3s"),
    ("--vpa-recommender", "memory-histogram-decay-half-life=2s"),
    ("--vpa-recommender", "cpu-histogram-decay-half-life=2s"),
    ("--vpa-updater", "updater-interval=1s"),
    ("--vpa-updater", "in-recommendation-bounds-eviction-lifetime-threshold=1s"),
    ("--vpa-updater", "scale-down-delay=2s"),
    ("--vpa-updater", "undo-settle=3s"),
    ("--meter-resolution", "1"),
)
"""The autoscaler's intervals of days, in seconds."""


@pytest.fixture
def up(tmp_path: Any) -> Iterator[Running]:
    podfit("image", "load", str(guest_archive(tmp_path)), "--data-dir", str(tmp_path / "data"))
    share_cache(tmp_path / "data/vm/libvirt")
    flags = [word for pair in QUICK for word in pair]
    running = Running(tmp_path / "data", "--vm", "--node-cpu", "8", "--node-memory", "8Gi", *flags)
    from podfit.vm.machines.process import Orphans, Processes

    running.start()
    with Orphans(Processes()).reaped():
        yield running
        running.stop()
        podfit("down", "--data-dir", str(tmp_path / "data"))


def deployment() -> str:
    size = {"cpu": "2", "memory": "512Mi"}
    container = {"name": "vm", "image": GUEST, "resources": {"requests": size, "limits": size}}
    pod = {"runtimeClassName": "vm", "terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"labels": {"app": "guest"}}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "guest"}}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "guest"}, "spec": spec})


def autoscaler() -> str:
    policy = {
        "containerName": "*",
        "minAllowed": {"cpu": "100m", "memory": "400Mi"},
        "maxAllowed": {"cpu": "2", "memory": "1Gi"},
        "controlledValues": "RequestsAndLimits",
    }
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "guest"},
        "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
        "resourcePolicy": {"containerPolicies": [policy]},
    }
    about = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "guest"}}
    return json.dumps({**about, "spec": spec})


def the_pod(up: Running) -> Any:
    found = up.json("get", "pods", "-l", "app=guest")["items"]
    return found[0] if found else {}


def size(up: Running) -> tuple[str, int]:
    """The guest's vCPUs and MiB, according to its pod's status."""
    from podfit.api.quantity import Quantity

    statuses = (the_pod(up).get("status") or {}).get("containerStatuses") or [{}]
    limits = (statuses[0].get("resources") or {}).get("limits") or {"cpu": "0", "memory": "0"}
    return limits["cpu"], Quantity.parse(limits["memory"]).value // MIB


def guest_memory(up: Running, name: str) -> int:
    return int(up.kubectl("exec", name, "--", "sed", "-n", r"s/MemTotal: *\([0-9]*\).*/\1/p", "/proc/meminfo")) >> 10


def test_a_vm_grows_and_shrinks_with_the_load_of_its_guest_without_a_restart(up: Running) -> None:
    up.kubectl("apply", "-f", "-", stdin=deployment())
    eventually(lambda: size(up) == ("2", 512), "the VM has the size of its template", PATIENCE_S)
    name, uid = the_pod(up)["metadata"]["name"], the_pod(up)["metadata"]["uid"]
    eventually(lambda: up.try_kubectl("exec", name, "--", "true").returncode == 0, "the guest answers", PATIENCE_S)
    up.kubectl("apply", "-f", "-", stdin=autoscaler())
    # An idle guest needs a fraction of a vCPU; the minimum of a VM is one.
    eventually(lambda: size(up) == ("1", 400), "the idle VM has shrunk", PATIENCE_S)
    before = guest_memory(up, name)
    fill = "mount -o remount,size=600m /tmp && dd if=/dev/zero of=/tmp/fill bs=1M count=290 2>/dev/null"
    up.kubectl("exec", name, "--", "sh", "-c", fill)
    eventually(lambda: size(up)[1] > 410, "the VM has grown with its guest's memory", PATIENCE_S)
    assert guest_memory(up, name) > before
    eventually(lambda: name in up.try_kubectl("top", "pod").stdout, "kubectl top shows the VM", PATIENCE_S)
    up.kubectl("exec", name, "--", "rm", "/tmp/fill")
    eventually(lambda: size(up) == ("1", 400), "the VM has shrunk again", PATIENCE_S)
    pod = the_pod(up)
    assert pod["metadata"]["uid"] == uid
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert pod["status"]["qosClass"] == "Guaranteed"
