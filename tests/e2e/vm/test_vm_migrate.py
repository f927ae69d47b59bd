"""`podfit migrate`: a VM pod moves between two nodes of a cluster, each with its VM runtime and libvirt daemon."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.libvirtds import Libvirtd, libvirtds, needs_libvirtd
from tests.vms import GUEST, guest_archive, needs_vms

from podfit.api.pods.migrations import ANNOTATION
from podfit.podnet.support import missing_for_bridge

pytestmark = [needs_vms, needs_libvirtd, pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")]
NETWORK = "user" if missing_for_bridge() else "bridge"
BOOT_ID = ("cat", "/proc/sys/kernel/random/boot_id")
CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "vm"},
    "handler": "vm",
    "overhead": {"podFixed": {"memory": "160Mi"}},
}


class Process:
    """A command of podfit, started and awaited until it prints that it is ready."""

    def __init__(self, log: Path, *words: str) -> None:
        self._log, self._words = log, words
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Process:
        command = [sys.executable, "-m", "podfit.cli.main", *self._words]
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready"), f"{line!r}: {self._log.read_text()}"
        return self

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self.send(number)
            self._process.wait(60)
            self._process = None


@dataclass
class Nodes:
    """Two nodes: `one` runs in `podfit up`, `two` in `podfit agent`."""

    up: Running
    agent: Process
    runtimes: dict[str, Process]
    daemons: dict[str, Libvirtd]

    def pod(self, name: str) -> Any:
        return self.up.json("get", "pod", name)

    def exec(self, name: str, *command: str) -> str:
        return self.up.kubectl("exec", name, "--", *command)

    def answers(self, name: str) -> bool:
        with contextlib.suppress(AssertionError):
            return bool(self.exec(name, "true") is not None)
        return False

    def reasons(self, name: str) -> list[str]:
        events = self.up.json("get", "events")["items"]
        return [event["reason"] for event in events if event["involvedObject"]["name"] == name]

    def phase(self, name: str) -> str:
        found: str = json.loads(self.pod(name)["metadata"]["annotations"][ANNOTATION])["phase"]
        return found

    def vms(self) -> dict[str, int]:
        """How many VMs each daemon runs."""
        return {name: len(daemon.running_vms()) for name, daemon in self.daemons.items()}

    def migrate(self, name: str, target: str, *more: str) -> subprocess.CompletedProcess[str]:
        words = ["migrate", name, "--to", target, "--kubeconfig", str(self.up.kubeconfig), *more]
        return podfit(*words)


def podfit(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "podfit.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


@contextlib.contextmanager
def nodes(folder: Path) -> Iterator[Nodes]:
    archive = guest_archive(folder)
    with libvirtds(folder, "lv1", "lv2") as daemons, contextlib.ExitStack() as stack:
        runtimes, sockets = {}, {}
        for name, daemon in zip(("one", "two"), daemons, strict=True):
            own = folder / f"vm-{name}"
            sockets[name] = f"unix://{own}/vm.sock"
            words = ["vm-runtime", "--data-dir", str(own), "--listen", sockets[name], "--network", NETWORK]
            words += ["--libvirt-socket", daemon.socket, "--image-archive", str(archive)]
            runtimes[name] = Process(folder / f"{name}.log", *words).start()
            stack.callback(runtimes[name].stop)
        size = ("--node-cpu", "4", "--node-memory", "4Gi", "--image-fallback", "host", "--stop-pods")
        with socket.create_server(("127.0.0.1", 0)) as free:
            listen = f"127.0.0.1:{free.getsockname()[1]}"
        up = Running(
            folder / "up",
            "--node-name",
            "one",
            "--runtime-endpoint",
            f"vm={sockets['one']}",
            "--listen",
            listen,
            *size,
            log=folder / "up.log",
        )
        stack.callback(up.stop)
        up.start()
        up.kubectl("apply", "-f", "-", stdin=json.dumps(CLASS))
        token = podfit("token", "create", "--kubeconfig", str(up.kubeconfig)).stdout
        joining = shlex.split(next(line for line in token.splitlines() if "podfit agent" in line))
        given = {word: joining[joining.index(word) + 1] for word in ("--server", "--token")}
        words = ["agent", "--server", given["--server"], "--token", given["--token"], "--node-name", "two"]
        words += ["--certificate-authority", str(folder / "up/pki/ca.crt"), "--node-ip", "127.0.0.1", "--port", "0"]
        words += ["--data-dir", str(folder / "agent"), "--runtime-endpoint", f"vm={sockets['two']}", *size]
        agent = Process(folder / "agent.log", *words)
        stack.callback(agent.stop)
        agent.start()
        up.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=60s")
        yield Nodes(up, agent, runtimes, dict(zip(("one", "two"), daemons, strict=True)))


def vm_pod(name: str, node: str) -> str:
    size = {"cpu": "1", "memory": "256Mi"}
    container = {"name": "vm", "image": GUEST, "resources": {"requests": size, "limits": size}}
    spec = {
        "runtimeClassName": "vm",
        "nodeSelector": {},
        "affinity": {},
        "nodeName": node,
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def running(cluster: Nodes, name: str, node: str = "one") -> None:
    cluster.up.kubectl("apply", "-f", "-", stdin=vm_pod(name, node))
    eventually(lambda: cluster.answers(name), "the guest's agent answers", 120)


def resized(cluster: Nodes, name: str, cpu: str, memory: str) -> None:
    size = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}
    patch = {"spec": {"containers": [{"name": "vm", "resources": size}]}}
    cluster.up.kubectl("patch", "pod", name, "--subresource", "resize", "--patch", json.dumps(patch))
    eventually(lambda: actual(cluster, name) == {"cpu": cpu, "memory": memory}, "the VM has its new size", 120)


def actual(cluster: Nodes, name: str) -> Any:
    return cluster.pod(name)["status"]["containerStatuses"][0].get("resources", {}).get("limits")


def page(pod: Any) -> bool:
    """Whether the guest's web server answers at the address that the pod reports."""
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8080/", timeout=30) as answer:
        return b"a VM pod" in answer.read()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    with tempfile.TemporaryDirectory(prefix="podfit-") as folder, nodes(Path(folder)) as found:
        yield found


def test_a_vm_pod_moves_to_another_node_and_stays_the_same_pod(cluster: Nodes) -> None:
    running(cluster, "guest")
    resized(cluster, "guest", "2", "384Mi")
    eventually(lambda: "PodResizeInProgress" not in str(cluster.pod("guest")["status"]["conditions"]), "settled")
    before, boot = cluster.pod("guest"), cluster.exec("guest", *BOOT_ID)
    cluster.exec("guest", "sh", "-c", "echo before-the-move > /dev/ttyS0")
    eventually(lambda: "before-the-move" in cluster.up.kubectl("logs", "guest"), "the console is logged")

    done = cluster.migrate("pod/guest", "two")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "pod/guest migrated to node two\n"
    eventually(lambda: cluster.answers("guest"), "the guest's agent answers at its new node", 60)
    after = cluster.pod("guest")
    assert (after["spec"]["nodeName"], after["metadata"]["uid"]) == ("two", before["metadata"]["uid"])
    assert cluster.exec("guest", *BOOT_ID) == boot, "the guest was not restarted"
    eventually(lambda: actual(cluster, "guest") == {"cpu": "2", "memory": "384Mi"}, "it has its size")
    status, was = (obj["status"]["containerStatuses"][0] for obj in (after, before))
    assert (status["restartCount"], status["containerID"]) == (was["restartCount"], was["containerID"])
    cluster.exec("guest", "sh", "-c", "echo after-the-move > /dev/ttyS0")
    eventually(lambda: "after-the-move" in cluster.up.kubectl("logs", "guest"), "the console is logged there")
    logged = cluster.up.kubectl("logs", "guest")
    assert logged.index("before-the-move") < logged.index("after-the-move")
    resized(cluster, "guest", "1", "256Mi")
    assert NETWORK == "user" or (before["status"]["podIP"] != after["status"]["podIP"] and page(after))
    eventually(lambda: {"Migrating", "Migrated"} <= set(cluster.reasons("guest")), "Events tell of it")
    assert "Killing" not in cluster.reasons("guest")
    cluster.up.kubectl("delete", "pod", "guest")


def test_a_migration_continues_after_both_agents_and_both_runtimes_were_killed(cluster: Nodes) -> None:
    """The target's runtime hangs first, so that the migration waits for it as Offered."""
    running(cluster, "hardy", "two")
    boot = cluster.exec("hardy", *BOOT_ID)
    cluster.runtimes["one"].send(signal.SIGSTOP)
    assert cluster.migrate("hardy", "one", "--no-wait").returncode == 0
    eventually(lambda: cluster.phase("hardy") == "Offered", "the source offers the VM")
    killed(cluster.runtimes["one"], cluster.agent)
    eventually(lambda: cluster.phase("hardy") == "Prepared", "the target expects the VM")
    killed(cluster.runtimes["two"], cluster.up)
    eventually(lambda: cluster.phase("hardy") == "Moved", "the VM has moved", 120)
    eventually(lambda: cluster.answers("hardy"), "the guest's agent answers at its new node", 60)
    assert cluster.exec("hardy", *BOOT_ID) == boot, "the guest was not restarted"
    assert cluster.pod("hardy")["spec"]["nodeName"] == "one"
    eventually(lambda: cluster.vms() == {"one": 1, "two": 0}, "it runs once")
    assert cluster.pod("hardy")["status"]["containerStatuses"][0]["restartCount"] == 0
    cluster.up.kubectl("delete", "pod", "hardy")


def killed(*processes: Process | Running) -> None:
    """Then all of them are restarted at the same time."""
    for process in processes:
        process.stop(signal.SIGKILL)
    for process in processes:
        process.start()
