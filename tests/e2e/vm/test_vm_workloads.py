"""VMs as the pods of a workload: probed, resized in place through its template, described, and restarted."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.vms import GUEST, needs_vms, podfit

from podfit.podnet.support import missing_for_bridge

pytestmark = [
    needs_vms,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.skipif(bool(missing_for_bridge()), reason="no bridges here"),
]
NAME, POD = "guest", "guest-0"
PATIENT = {"periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 300}
"""Guests boot slowly on a busy machine."""


def limits(cpu: str, memory: str) -> dict[str, Any]:
    return {"limits": {"cpu": cpu, "memory": memory}, "requests": {"cpu": "100m", "memory": "64Mi"}}


def stateful_set() -> str:
    vm = {"name": "vm", "image": GUEST, "resources": limits("1", "256Mi")}
    vm["readinessProbe"] = {"exec": {"command": ["pgrep", "qemu-ga"]}, **PATIENT}
    vm["startupProbe"] = {"tcpSocket": {"port": 8080}, **PATIENT}
    vm["livenessProbe"] = {"httpGet": {"port": 8080, "path": "/"}, **PATIENT}
    pod = {"runtimeClassName": "vm", "terminationGracePeriodSeconds": 5, "containers": [vm]}
    template = {"metadata": {"labels": {"app": NAME}}, "spec": pod}
    spec = {"serviceName": NAME, "replicas": 1, "selector": {"matchLabels": {"app": NAME}}, "template": template}
    about = {"name": NAME, "annotations": {"podfit.dev/resize-policy": "InPlace"}}
    return json.dumps({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": about, "spec": spec})


def resize(up: Running, cpu: str, memory: str) -> None:
    """Resizes the template; the pod follows."""
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "vm", "resources": limits(cpu, memory)}]}}}}
    up.kubectl("patch", "statefulset", NAME, "--patch", json.dumps(patch))
    eventually(lambda: container(up)["resources"]["limits"] == {"cpu": cpu, "memory": memory}, "the VM follows", 120)


def pod(up: Running) -> Any:
    return up.json("get", "pod", POD)


def container(up: Running) -> Any:
    return pod(up)["status"]["containerStatuses"][0]


def is_ready(up: Running, restarts: int) -> bool:
    found = up.json("get", "pods", "-l", f"app={NAME}")["items"]
    statuses = found[0]["status"].get("containerStatuses") if found else None
    return bool(statuses) and (statuses[0]["ready"], statuses[0]["restartCount"]) == (True, restarts)


def guest(up: Running, script: str) -> str:
    return up.kubectl("exec", POD, "--", "sh", "-c", script).strip()


def page_through(up: Running) -> str:
    """The guest's web page, fetched through `kubectl port-forward`."""
    words = ["kubectl", f"--kubeconfig={up.kubeconfig}", "port-forward", POD, ":8080"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as forwarding:
        assert forwarding.stdout is not None
        port = re.search(r"127\.0\.0\.1:(\d+)", forwarding.stdout.readline())
        assert port is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/", timeout=60) as answer:
            found: str = answer.read().decode()
        forwarding.terminate()
    return found


def test_a_stateful_set_of_vms_is_probed_resized_in_place_and_restarted_with_its_size(
    up: Running, tmp_path: Path
) -> None:
    up.kubectl("apply", "-f", "-", stdin=stateful_set())
    eventually(lambda: is_ready(up, 0), "every probe of the guest succeeds", 240)
    uid = pod(up)["metadata"]["uid"]

    resize(up, "2", "384Mi")
    resize(up, "1", "384Mi")
    eventually(lambda: guest(up, "nproc") == "1", "a vCPU is offline", 60)
    reported = eventually(lambda: offline_told(up), "describe says that it is still plugged", 60)
    rows = [line.split() for line in reported.splitlines()]
    assert ["vm", "cpu", *["100m/1"] * 4] in rows, reported
    assert ["memory", *["64Mi/384Mi"] * 3, "-/384Mi"] in rows, reported

    (tmp_path / "note").write_text("to the guest\n")
    up.kubectl("cp", str(tmp_path / "note"), f"{POD}:/tmp/note")
    up.kubectl("cp", f"{POD}:/tmp/note", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "to the guest\n"
    assert "a VM pod" in page_through(up)

    up.try_kubectl("exec", POD, "--", "poweroff", "-f")
    eventually(lambda: is_ready(up, 1), "the VM was started again", 240)
    assert (pod(up)["metadata"]["uid"], guest(up, "cat /sys/devices/system/cpu/present")) == (uid, "0")
    assert int(guest(up, "sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo")) >> 10 > 300, "it boots with it"
    assert container(up)["resources"]["limits"] == {"cpu": "1", "memory": "384Mi"}
    assert container(up)["lastState"]["terminated"]["reason"] == "Completed"
    up.kubectl("delete", "statefulset", NAME)


def offline_told(up: Running) -> str:
    reported = podfit("describe", "pod", POD, "--kubeconfig", str(up.kubeconfig))
    return reported if "1 more vCPU is plugged but offline in the guest" in reported else ""
