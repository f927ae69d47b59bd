"""The static CPU policy on this machine's cgroups: where processes run, through kill -9 and changes of the policy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.cpus.decide.sets import Cpus, parse, text
from podfit.agent.cpus.machine import read
from podfit.agent.runtimes.process.support import check_support
from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.e2e.noderuntimes import NodeRuntime
from tests.support.containers.containerd import Containerd, missing

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.skipif(bool(check_support()), reason="needs writable cgroups"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one CPU is reserved, another one exclusive"),
]
STATIC = ("--cpu-manager-policy", "static", "--reserved-cpus", "0")


PROCESS = NodeRuntime("process")


def pod(name: str, cpu: str = "", image: str = "host") -> dict[str, Any]:
    """A Guaranteed pod, or a BestEffort one without an amount of CPU."""
    amounts = {"cpu": cpu, "memory": "32Mi"}
    resources = {"requests": amounts, "limits": amounts} if cpu else {}
    one = {"name": "c", "image": image, "command": ["sleep", "3600"], "resources": resources}
    spec = {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False, "containers": [one]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Node:
    def __init__(self, folder: Path, runtime: NodeRuntime) -> None:
        self.folder, self.log, self.runtime = folder / "data", folder / "log", runtime
        self.up = Running(self.folder, log=self.log)

    def start(self, *options: str) -> None:
        arguments = ("--node-name", "n1", *self.runtime.arguments, "--no-vpa", *options)
        self.up = Running(self.folder, *arguments, log=self.log).start()

    def refuses(self, *options: str) -> str:
        """The error output of a `podfit up` that does not start."""
        command = [sys.executable, "-m", "podfit.cli.main", "up", "--data-dir", str(self.folder)]
        more = ["--listen", "127.0.0.1:0", "--node-name", "n1", *self.runtime.arguments, "--no-vpa", *options]
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=120)
        assert done.returncode in (1, 2), done.stderr
        return done.stderr

    @property
    def checkpoint(self) -> Path:
        return self.folder / "nodes" / "n1" / "cpu_manager_state"

    def create(self, body: dict[str, Any], namespace: str = "default") -> None:
        self.up.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
        name = body["metadata"]["name"]
        self.up.kubectl("wait", "-n", namespace, "--for=condition=Ready", f"pod/{name}", "--timeout=60s")

    def identity(self, name: str) -> tuple[str, int]:
        status = self.up.json("get", "pod", name)["status"]["containerStatuses"][0]
        return status["containerID"], status["restartCount"]

    def runs_on(self, name: str, namespace: str = "default") -> Cpus:
        if self.runtime.kind != "process":
            return self.exec_runs_on(name)
        status = self.up.json("get", "pod", "-n", namespace, name)["status"]["containerStatuses"][0]
        container = status["containerID"].rpartition("/")[2]
        state = self.folder / "nodes" / "n1" / "runtime" / "containers" / container / "state.json"
        process = Path("/proc") / str(json.loads(state.read_text())["pid"]) / "status"
        return parse(_allowed(process.read_text()))

    def exec_runs_on(self, name: str) -> Cpus:
        """The CPUs of another process started in the container."""
        return parse(_allowed(self.up.kubectl("exec", name, "--", "cat", "/proc/self/status")))

    def expect(self, **cpus: Cpus) -> None:
        def so() -> bool:
            return {name: self.runs_on(name) for name in cpus} == cpus

        eventually(so, f"pods on { ({name: text(item) for name, item in cpus.items()}) }")


def _allowed(status: str) -> str:
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))


@contextmanager
def node_of(folder: Path, runtime: NodeRuntime) -> Iterator[Node]:
    made = Node(folder, runtime)
    try:
        yield made
    finally:
        made.up.stop()
        subprocess.run([sys.executable, "-m", "podfit.cli.main", "down", "--data-dir", str(made.folder)], check=False)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_of(tmp_path, PROCESS) as made:
        yield made


def test_exclusive_cpus_survive_kill_9_and_a_change_of_the_policy(node: Node) -> None:
    survives(node, "host")


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_exclusive_cpus_in_containerd_survive_the_same(tmp_path: Path, containerd: Containerd) -> None:
    with node_of(tmp_path, NodeRuntime("cri", containerd.endpoint)) as node:
        survives(node, "busybox")


def survives(node: Node, image: str) -> None:
    everything = read().all
    node.start(*STATIC)
    node.create(pod("shared", image=image))
    node.create(pod("own", "1", image))
    own = node.runs_on("own")
    assert len(own) == 1 and 0 not in own
    node.expect(own=own, shared=everything - own)
    assert (node.exec_runs_on("own"), node.exec_runs_on("shared")) == (own, everything - own)
    known = {name: node.identity(name) for name in ("own", "shared")}

    node.up.stop(signal.SIGKILL)
    node.start(*STATIC)
    node.expect(own=own, shared=everything - own)
    node.up.stop()

    why = node.refuses()
    assert 'configured policy "none" differs from state checkpoint policy "static"' in why
    assert f'delete the CPU manager checkpoint file "{node.checkpoint}"' in why
    node.checkpoint.write_text("{}")
    assert "could not restore state from checkpoint" in node.refuses(*STATIC)

    node.checkpoint.unlink()
    node.start(*STATIC)
    node.expect(own=own, shared=everything - own)
    node.up.stop()
    node.checkpoint.unlink()
    node.start()
    node.expect(own=everything, shared=everything)
    node.up.stop()
    node.checkpoint.unlink()
    node.start(*STATIC)
    node.expect(own=own, shared=everything - own)
    assert {name: node.identity(name) for name in ("own", "shared")} == known


@pytest.mark.parametrize("dialect", ["2020", "2021"])
def test_an_older_design_gives_a_container_a_whole_cpu_and_no_part_of_one(node: Node, dialect: str) -> None:
    everything = read().all
    node.start(*STATIC)
    node.up.kubectl("create", "namespace", "old")
    node.up.kubectl("label", "namespace", "old", f"podfit.dev/resize-dialect={dialect}")
    node.create(pod("shared"))
    node.create(pod("p", "500m"), "old")
    assert node.runs_on("p", "old") == everything

    def patch(cpu: str) -> None:
        resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
        body = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        node.up.kubectl("patch", "-n", "old", "pod", "p", "-o", "name", "-p", json.dumps(body))

    patch("1")
    eventually(lambda: len(node.runs_on("p", "old")) == 1, "one CPU of its own")
    own = node.runs_on("p", "old")
    node.expect(shared=everything - own)
    patch("700m")

    def rejected() -> bool:
        events = node.up.json("get", "events", "-n", "old")["items"]
        return any("requests 700m, which is not a whole number of CPUs" in event["message"] for event in events)

    eventually(rejected, "an Event about the part of a CPU")
    assert node.runs_on("p", "old") == own
    assert node.up.json("get", "pod", "-n", "old", "p")["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--cpu-manager-policy", "dynamic"), "must be none or static"),
        (("--cpu-manager-policy", "static"), "requires systemreserved.cpu + kubereserved.cpu to be greater than zero"),
        (("--cpu-manager-policy", "static", "--reserved-cpus", "x"), "unable to parse reserved-cpus list"),
        (("--cpu-manager-policy", "static", "--reserved-cpus", "0,4095"), "is not a subset of online-cpus"),
        (("--cpu-manager-policy", "static", "--nodes", "2", "--reserved-cpus", "0"), "nodes on one machine"),
        (("--feature-gates", "Nothing=true"), "unrecognized feature gate: Nothing"),
        (("--feature-gates", "InPlacePodVerticalScalingExclusiveCPUs"), "missing bool value"),
        (("--system-reserved", "cpu=-1"), "cannot be negative"),
        (("--kube-reserved", "gpu=1"), 'cannot reserve "gpu" resource'),
    ],
)
def test_options_that_cannot_work_end_the_command_with_one_line(node: Node, options: tuple[str, ...], why: str) -> None:
    written = node.refuses(*options)
    assert why in written and "Traceback" not in written
    assert len(written.strip().splitlines()) == 1
