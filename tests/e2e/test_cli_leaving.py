"""The output of `podfit up` at the default log level: only `ready` while there are no problems, and on exit the pods
that keep running, with a command that stops them.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from podfit.agent.runtimes.process.support import check_support
from tests.e2e.conftest import KUBECTL, Running, eventually

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
needs_cgroups = pytest.mark.skipif(bool(check_support()), reason="needs writable cgroups")
WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: c, image: host, command: [sleep, "3600"], resources: {requests: {cpu: 50m, memory: 16Mi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: host, command: ["true"]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}
"""


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    up = Running(tmp_path / "data", "--node-name", "n1", "--runtime", request.param, log=tmp_path / "log")
    try:
        yield up.start()
    finally:
        up.stop()
        podfit("down", "--data-dir", str(up.folder))


def podfit(*words: str) -> str:
    command = [sys.executable, "-m", "podfit.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def run_workloads(up: Running) -> None:
    up.kubectl("apply", "-f", "-", stdin=WORKLOADS)
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    # The fake runtime's containers run until they are stopped.
    if "process" in up.arguments:
        up.kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=60s")
    pod = up.json("get", "pods", "-l", "app=web")["items"][0]["metadata"]["name"]
    patch = '{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"60m"}}}]}}'
    up.kubectl("patch", "pod", pod, "--subresource", "resize", "--patch", patch)
    up.kubectl("delete", "job", "once")


def written(up: Running) -> str:
    assert up.log is not None
    return up.log.read_text()


@needs_cgroups
@pytest.mark.parametrize("running", ["process"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_says_how_many_pods_keep_running_and_the_command_it_names_ends_them(
    running: Running, number: int
) -> None:
    run_workloads(running)
    assert written(running) == ""
    running.stop(number)
    line = written(running)
    assert line.startswith("2 pods keep running: ") and line.count("\n") == 1
    command, option = re.findall("`podfit ([^`]*)`", line)
    assert option == "up --stop-pods"
    assert processes(running.folder)
    podfit(*shlex.split(command))
    assert not processes(running.folder)


@needs_cgroups
@pytest.mark.parametrize("running", ["fake"], indirect=True)
def test_an_agent_says_which_pods_it_leaves(running: Running, tmp_path: Path) -> None:
    where = ("--kubeconfig", str(running.kubeconfig), "--data-dir", str(tmp_path / "agent"))
    command = [sys.executable, "-m", "podfit.cli.main", "agent", *where, "--node-name", "n2"]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert agent.stdout is not None and agent.stdout.readline() == "ready node n2\n"
        spec = '{"apiVersion": "v1", "spec": {"nodeName": "n2"}}'
        running.kubectl("run", "x", "--image=host", f"--overrides={spec}", "--", "sleep", "3600")
        running.kubectl("wait", "--for=condition=Ready", "pod/x", "--timeout=60s")
        agent.terminate()
        _, line = agent.communicate(timeout=60)
        assert line.startswith("1 pod keeps running: `podfit down ") and "`podfit agent --stop-pods`" in line
    finally:
        agent.kill()
        agent.wait(30)
        podfit("down", "--data-dir", str(tmp_path / "agent"))


@pytest.mark.parametrize("running", [pytest.param("process", marks=needs_cgroups), "fake"], indirect=True)
def test_stopping_says_nothing_when_no_pod_runs_on(running: Running) -> None:
    run_workloads(running)
    if "process" in running.arguments:
        running.kubectl("delete", "deployment", "web")
        eventually(lambda: not running.json("get", "pods")["items"], "all pods are gone")
    running.stop()
    assert written(running) == ""


def processes(folder: Path) -> list[Path]:
    """The processes that podfit started for the pods of this data directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder / "nodes") in (entry / "cmdline").read_text(errors="replace"):
                found.append(entry)
        except OSError:
            continue
    return found
