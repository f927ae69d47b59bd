"""VM pods beside container pods, through kubectl: created, read, resized in place, deleted."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.vms import GUEST, needs_vms, podfit

from podfit.kit.files.dirlock import holder_of
from podfit.vm import LOCK

pytestmark = [needs_vms, pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")]

HOG = "mount -t tmpfs -o size=300m hog /mnt && dd if=/dev/zero of=/mnt/hog bs=1M count=200 2>/dev/null"


def vm_pod(name: str, cpu: str = "1", memory: str = "256Mi") -> str:
    size = {"cpu": cpu, "memory": memory}
    container = {"name": "vm", "image": GUEST, "resources": {"requests": size, "limits": size}}
    spec = {"runtimeClassName": "vm", "terminationGracePeriodSeconds": 10, "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def resize(up: Running, name: str, cpu: str, memory: str) -> None:
    size = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}
    patch = {"spec": {"containers": [{"name": "vm", "resources": size}]}}
    up.kubectl("patch", "pod", name, "--subresource", "resize", "--patch", json.dumps(patch))


def actual(up: Running, name: str) -> Any:
    statuses = up.json("get", "pod", name)["status"].get("containerStatuses") or [{}]
    return (statuses[0].get("resources") or {}).get("limits")


def in_progress(up: Running, name: str) -> str:
    """The reason why a resize has not completed."""
    conditions = up.json("get", "pod", name)["status"]["conditions"]
    found = (
        condition
        for condition in conditions
        if (condition["type"], condition.get("reason")) == ("PodResizeInProgress", "Error")
    )
    return str(next(found, {}).get("message", ""))


def answers(up: Running, name: str) -> bool:
    return up.try_kubectl("exec", name, "--", "true").returncode == 0


def test_a_vm_pod_lives_and_is_resized_beside_containers(up: Running) -> None:
    up.kubectl("apply", "-f", "-", stdin=vm_pod("guest"))
    eventually(lambda: up.json("get", "pod", "guest")["status"]["phase"] == "Running", "the VM pod runs", 120)
    eventually(lambda: answers(up, "guest"), "the guest's agent answers", 120)
    assert "PODFIT-GUEST-READY" in up.kubectl("logs", "guest")
    assert up.kubectl("exec", "guest", "--", "hostname") == "guest\n"
    resize(up, "guest", "2", "500Mi")
    eventually(lambda: actual(up, "guest") == {"cpu": "2", "memory": "500Mi"}, "the VM has grown", 120)
    assert up.kubectl("exec", "guest", "--", "nproc") == "2\n"
    up.kubectl("exec", "guest", "--", "sh", "-c", HOG)
    resize(up, "guest", "1", "256Mi")
    eventually(lambda: "are still in use by the guest" in in_progress(up, "guest"), "its status says what is missing")
    up.kubectl("exec", "guest", "--", "umount", "/mnt")
    eventually(lambda: actual(up, "guest") == {"cpu": "1", "memory": "256Mi"}, "the VM has shrunk", 120)
    pod = up.json("get", "pod", "guest")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert pod["spec"]["overhead"] == {"memory": "160Mi"}
    assert not [condition for condition in pod["status"]["conditions"] if condition["type"].startswith("PodResize")]
    up.kubectl("delete", "pod", "guest")


def test_a_size_that_no_vm_can_have_changes_nothing_and_reports_the_reason(up: Running) -> None:
    up.kubectl("apply", "-f", "-", stdin=vm_pod("refused"))
    eventually(lambda: actual(up, "refused") == {"cpu": "1", "memory": "256Mi"}, "the VM pod runs", 120)

    def explained(words: str) -> bool:
        conditions = up.json("get", "pod", "refused")["status"]["conditions"]
        return any(
            condition["type"] == "PodResizePending"
            and condition["reason"] == "Infeasible"
            and words in condition["message"]
            for condition in conditions
        )

    for cpu, memory, words in (
        ("1500m", "256Mi", "only have whole vCPUs"),
        ("5", "256Mi", "podfit.dev/vm-max-vcpus"),
        ("1", "2Gi", "podfit.dev/vm-max-memory"),
    ):
        resize(up, "refused", cpu, memory)
        eventually(lambda words=words: explained(words), f"the reason {words} is in the pod's conditions", 60)  # type: ignore[misc]
        assert actual(up, "refused") == {"cpu": "1", "memory": "256Mi"}
    up.kubectl("delete", "pod", "refused", "--grace-period=1")


def test_a_vm_outlives_its_runtime_and_podfit_and_ends_with_podfit_down(up: Running) -> None:
    up.kubectl("apply", "-f", "-", stdin=vm_pod("kept"))
    eventually(lambda: up.json("get", "pod", "kept")["status"]["phase"] == "Running", "the VM pod runs", 120)
    before = up.json("get", "pod", "kept")["status"]["containerStatuses"][0]["containerID"]
    killed = holder_of(up.folder / "vm" / LOCK)
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    resize(up, "kept", "1", "300Mi")
    eventually(lambda: actual(up, "kept") == {"cpu": "1", "memory": "300Mi"}, "another runtime resizes the VM", 180)
    assert holder_of(up.folder / "vm" / LOCK) not in (None, killed)
    up.stop(9)
    up.start()
    eventually(lambda: answers(up, "kept"), "the VM is reached again", 120)
    assert up.json("get", "pod", "kept")["status"]["containerStatuses"][0]["containerID"] == before
    up.stop()
    assert "ended 1 pod" in podfit("down", "--data-dir", str(up.folder))
    up.start()
