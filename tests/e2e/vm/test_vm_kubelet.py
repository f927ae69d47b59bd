"""A real kubelet on `podfit vm-runtime`, under podfit's API server: a VM pod runs, is resized in place and deleted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kernelnet import network_namespace, run, skip_without_networks
from tests.vms import GUEST, guest_archive, kubernetes, needs_vms, process

pytestmark = [needs_vms, pytest.mark.slow]
ADDRESS = "10.99.7.2"
CGROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def cgroup() -> Iterator[str]:
    """A parent for all cgroups of a kubelet, in every hierarchy."""
    name = f"podfit-kubelet-{os.getpid()}"
    points = [CGROUPS] if (CGROUPS / "cgroup.controllers").exists() else [p for p in CGROUPS.iterdir() if p.is_dir()]
    for point in points:
        (point / name).mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if point.name == "cpuset":
                (point / name / file).write_text((point / file).read_text())
    try:
        yield f"/{name}"
    finally:
        for point in points:
            for folder in sorted((point / name).rglob("*"), reverse=True):
                if folder.is_dir():
                    with contextlib.suppress(OSError):
                        folder.rmdir()
            with contextlib.suppress(OSError):
                (point / name).rmdir()


@contextlib.asynccontextmanager
async def program(*words: str, log: Path) -> AsyncIterator[None]:
    with log.open("wb") as out:
        running = await asyncio.create_subprocess_exec(*words, stdout=out, stderr=out)
    try:
        yield
    finally:
        if running.returncode is None:
            running.terminate()
        await running.wait()


def kubelet_settings(folder: Path, root: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{folder}/vm.sock",
        "cgroupRoot": root,
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": f"{folder}/cluster/pki/ca.crt"}},
        "featureGates": {"KubeletInUserNamespace": True},
        "contentType": "application/json",
        "syncFrequency": "5s",
    }


def storage_kinds() -> list[dict[str, Any]]:
    """Objects that a kubelet requests before it is ready, for an API server that does not serve them."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{kind.lower()}s.storage.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            },
            "spec": {
                "group": "storage.k8s.io",
                "scope": "Cluster",
                "names": {"plural": f"{kind.lower()}s", "singular": kind.lower(), "kind": kind},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        for kind in ("CSINode", "CSIDriver", "VolumeAttachment")
    ]


def vm_pod() -> dict[str, Any]:
    size = {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 2, "timeoutSeconds": 30}
    container = {"name": "vm", "image": GUEST, "imagePullPolicy": "Never", "resources": size, "readinessProbe": probe}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "guest"},
        "spec": {
            "terminationGracePeriodSeconds": 60,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }


class Kubectl:
    def __init__(self, folder: Path, within: tuple[str, ...]) -> None:
        self._command = (*within, "kubectl", "--kubeconfig", str(folder / "cluster/admin.kubeconfig"))

    async def __call__(self, *words: str, stdin: object = None, check: bool = True) -> str:
        pipe = asyncio.subprocess.PIPE
        running = await asyncio.create_subprocess_exec(*self._command, *words, stdin=pipe, stdout=pipe, stderr=pipe)
        given = json.dumps(stdin).encode() if stdin is not None else b""
        out, err = await asyncio.wait_for(running.communicate(given), 120)
        assert not check or running.returncode == 0, (words, err.decode())
        return out.decode()

    async def until(self, true: Callable[[str], bool], *words: str, seconds: float = 180) -> str:
        """Repeats a command until its output matches, because a kubelet reports with a delay."""
        end = time.monotonic() + seconds
        while not true(said := await self(*words, check=False)):
            assert time.monotonic() < end, (words, said)
            await asyncio.sleep(0.5)
        return said


async def test_a_kubelet_runs_resizes_and_deletes_a_vm_pod(tmp_path: Path) -> None:
    kubelet = kubernetes("kubelet")
    skip_without_networks()
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    archive = guest_archive(tmp_path)
    with network_namespace() as within, cgroup() as root:
        run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo", within=within)
        kubectl, settings = Kubectl(tmp_path, within), tmp_path / "kubelet.json"
        settings.write_text(json.dumps(kubelet_settings(tmp_path, root)))
        podfit = (*within, sys.executable, "-m", "podfit.cli.main", "up", "--nodes", "0", "--listen", "127.0.0.1:0")
        node = (*within, kubelet, "--config", str(settings), "--hostname-override", "node1", "--node-ip", ADDRESS)
        node += ("--kubeconfig", str(tmp_path / "cluster/admin.kubeconfig"), "--root-dir", str(tmp_path / "kubelet"))
        node += ("--cert-dir", str(tmp_path / "kubelet-pki"))
        options = ("--network", "bridge", "--image-archive", str(archive))
        async with (
            process(tmp_path, *options, within=within),
            program(*podfit, "--data-dir", str(tmp_path / "cluster"), log=tmp_path / "podfit.log"),
        ):
            await kubectl.until(lambda said: "default" in said, "get", "namespaces")
            if "csinodes" not in await kubectl("api-resources", "-o", "name"):
                await kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": storage_kinds()})
                await kubectl.until(lambda said: "csinodes" in said, "api-resources", "-o", "name")
            try:
                async with program(*node, log=tmp_path / "kubelet.log"):
                    await kubectl.until(lambda said: " Ready" in said, "get", "nodes", "--no-headers")
                    await kubectl("apply", "-f", "-", stdin=vm_pod())
                    await the_life_of_a_pod(kubectl)
            finally:
                # A kubelet mounts its own folder.
                with contextlib.suppress(subprocess.CalledProcessError):
                    run("umount", "--lazy", str(tmp_path / "kubelet"))


async def the_life_of_a_pod(kubectl: Kubectl) -> None:
    await kubectl("wait", "--for=condition=Ready", "pod/guest", "--timeout=100s", check=False)
    await kubectl("wait", "--for=condition=Ready", "pod/guest", "--timeout=100s")
    await kubectl.until(lambda said: "PODFIT-GUEST-READY" in said, "logs", "guest")
    assert (await kubectl("exec", "guest", "--", "nproc")).strip() == "1"
    limits = {"cpu": "2", "memory": "384Mi"}
    patch = {"spec": {"containers": [{"name": "vm", "resources": {"limits": limits}}]}}
    await kubectl("patch", "pod", "guest", "--subresource", "resize", "-p", json.dumps(patch))
    path = "jsonpath={.status.containerStatuses[0]}"
    status = await kubectl.until(lambda said: '"384Mi"' in said, "get", "pod", "guest", "-o", path)
    reported = json.loads(status)
    assert reported["resources"]["limits"] == limits and reported["restartCount"] == 0
    assert (await kubectl("exec", "guest", "--", "nproc")).strip() == "2"
    await kubectl("delete", "pod", "guest", "--timeout=100s")
    assert "guest" not in await kubectl("get", "pods")
