"""podfit's output about pods that were OOM-killed, wait, terminate or have terminated, in a terminal and elsewhere."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from podfit.agent.runtimes.process.support import check_support
from tests.e2e.conftest import Running, eventually
from tests.e2e.test_cli_commands import POD, podfit

KILLED = """
apiVersion: v1
kind: Pod
metadata: {name: killed}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: eater
    image: host
    command: [sh, -c, "exec tail /dev/zero"]
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 32Mi}}
  - name: calm
    image: host
    command: [sleep, "3600"]
"""


@pytest.fixture(scope="module")
def running(up: Running) -> Iterator[str]:
    up.kubectl("apply", "-f", "-", stdin=POD % "inspected")
    up.kubectl("wait", "--for=condition=Ready", "pod/inspected", "--timeout=60s")
    yield "inspected"
    up.kubectl("delete", "pod", "inspected", "--ignore-not-found", "--now")


@pytest.fixture(scope="module")
def killed(up: Running) -> Iterator[str]:
    if check_support():
        pytest.skip("needs root and cgroups: only a kernel kills for memory")
    up.kubectl("apply", "-f", "-", stdin=KILLED)

    def restarted() -> bool:
        statuses = up.json("get", "pod", "killed")["status"].get("containerStatuses") or []
        return any((status.get("lastState") or {}).get("terminated") for status in statuses)

    eventually(restarted, "the container is killed and started again")
    yield "killed"
    up.kubectl("delete", "pod", "killed", "--now")


def test_an_oom_kill_is_on_every_page(up: Running, killed: str) -> None:
    fact, advice = "Container eater was OOM-killed", "podfit resize killed -c eater --limits memory=64Mi"
    for words in (["describe", "pod", killed], ["explain", "pod", killed], ["explain", "resize", killed]):
        page = podfit(up, *words).out
        assert fact in page and "at its memory limit of 32Mi" in page and advice in page, page
    page = podfit(up, "describe", "pod", killed).out
    assert "OOM-killed   eater: memory limit 32Mi, exit code 137" in page.partition("Story:")[2]
    reported = json.loads(podfit(up, "describe", "pod", killed, "-o", "json").out)
    [kill] = reported["oomKills"]
    assert kill["container"] == "eater" and kill["memoryLimitThen"] == "32Mi" and kill["restartCount"] >= 1
    [pod] = [
        item for item in json.loads(podfit(up, "top", "-o", "json").out)["items"] if item["metadata"]["name"] == killed
    ]
    assert [container.get("risk") for container in pod["containers"]] == ["OOM-killed", None]


def test_a_page_fits_its_terminal(up: Running, running: str) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "podfit.cli.main", "describe", "pod", running]
    environment["KUBECONFIG"] = str(up.kubeconfig)
    with subprocess.Popen(command, env=environment, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        page = b""
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:
                break
            if not chunk:
                break
            page += chunk
        assert process.wait(60) == 0
    os.close(master)
    lines = page.decode().splitlines()
    assert "Story:" in lines and max(map(len, lines)) <= 80
    assert max(map(len, podfit(up, "describe", "pod", running).out.splitlines())) > 80


def test_a_resized_pod_is_printed_whole_and_without_managed_fields(up: Running, running: str) -> None:
    for words in (["--dry-run"], ["--dry-run=server"], ["--no-wait"], []):
        shown = json.loads(podfit(up, "resize", running, "--cpu", "120m", "-o", "json", *words).out)
        assert (shown["apiVersion"], shown["kind"]) == ("v1", "Pod") and "managedFields" not in shown["metadata"]
        assert shown["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "120m"
        if "--no-wait" in words:
            assert podfit(up, "resize", running, "--cpu", "100m").code == 0


def test_every_offered_format_is_taken_and_others_are_refused(up: Running, running: str) -> None:
    for command, formats in (
        (["top"], ("wide", "json", "yaml", "name")),
        (["events"], ("wide", "json", "yaml", "name")),
        (["describe", "pod", running], ("wide", "json", "yaml")),
        (["resize", running, "--cpu", "101m", "--dry-run"], ("json", "yaml", "name")),
        (["explain", "pod", running], ("json", "yaml")),
        (["version"], ("json", "yaml")),
    ):
        for word in ("wide", "json", "yaml", "name", "xml"):
            said = podfit(up, *command, "-o", word)
            assert said.code == (0 if word in formats else 2), (command, word, said)
            if word not in formats:
                assert f'output format "{word}", allowed formats are: {",".join(sorted(formats))}' in said.err


def test_workloads_and_nodes_are_described_and_explained(up: Running) -> None:
    up.kubectl("create", "deployment", "shop", "--image=host", "--replicas=2", "--", "sleep", "3600")
    up.kubectl("rollout", "status", "deployment/shop", "--timeout=60s")
    try:
        for words in (["explain", "resize", "deploy/shop"], ["explain", "resize", "deploy", "shop"]):
            assert podfit(up, *words).out.count("pod/shop-") == 2
        assert podfit(up, "explain", "pod", "-l", "app=shop").out.count("is on node n1") == 2
        assert podfit(up, "describe", "deploy/shop").out.count("Story:") == 2
        for words in (["describe", "node", "n1"], ["describe", "nodes"], ["describe", "node/n1"]):
            page = podfit(up, *words).out
            assert "Resources:" in page and page.count("shop-") == 2, page
        reported = json.loads(podfit(up, "describe", "node", "n1", "-o", "json").out)
        assert reported["allocatable"]["cpu"] == "4" and reported["requested"]["cpu"].endswith("m")
    finally:
        up.kubectl("delete", "deployment", "shop", "--timeout=60s")


def test_a_terminating_pod_is_not_called_running(up: Running) -> None:
    slow = (POD % "leaving").replace("terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 60")
    slow = slow.replace("while true", "trap '' TERM; while true")
    up.kubectl("apply", "-f", "-", stdin=slow)
    up.kubectl("wait", "--for=condition=Ready", "pod/leaving", "--timeout=60s")
    up.kubectl("delete", "pod", "leaving", "--wait=false")
    try:
        assert "Status:      Terminating, Burstable" in podfit(up, "describe", "pod", "leaving").out
    finally:
        up.kubectl("delete", "pod", "leaving", "--grace-period=0", "--force")


def test_pods_without_a_node_and_ended_pods_have_pages(up: Running) -> None:
    up.kubectl("apply", "-f", "-", stdin=(POD % "homeless").replace("100m", "40").replace("200m", "40"))
    up.kubectl("run", "brief", "--image=host", "--restart=Never", "--", "true")
    up.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/brief", "--timeout=60s")
    try:
        page = podfit(up, "describe", "pod", "homeless").out
        assert "Resize:      none: the pod is not on a node yet" in page and "?" not in page.partition("Cond")[0]
        page = podfit(up, "describe", "pod", "brief").out
        assert "Status:      Completed" in page and "Resize:      none: the pod has ended" in page
        assert "has ended (Succeeded)" in podfit(up, "explain", "resize", "brief").out
        assert "has ended (Succeeded)" in podfit(up, "explain", "pod", "brief").out
    finally:
        up.kubectl("delete", "pod", "homeless", "brief", "--now")


def test_a_namespace_without_pods_reports_it(up: Running) -> None:
    for words in (["top"], ["describe", "pods"]):
        said = podfit(up, *words, "-n", "kube-public")
        assert said.code == 0 and "No resources found in kube-public namespace." in said.out + said.err
    assert podfit(up, "explain", "pod", "-l", "app=nobody").code == 2


def test_a_size_that_an_autoscaler_will_overwrite_is_announced(up: Running) -> None:
    up.kubectl("create", "deployment", "scaled", "--image=host", "--", "sleep", "3600")
    up.kubectl("rollout", "status", "deployment/scaled", "--timeout=60s")
    vpa = """
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: scaled}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}
  updatePolicy: {updateMode: %s}
"""
    ask = ["resize", "deploy/scaled", "--cpu", "50m", "--dry-run"]
    try:
        up.kubectl("set", "resources", "deployment/scaled", "--requests=cpu=40m")
        up.kubectl("rollout", "status", "deployment/scaled", "--timeout=60s")
        up.kubectl("apply", "-f", "-", stdin=vpa % '"Off"')
        assert "vpa/scaled" not in podfit(up, *ask).err
        up.kubectl("apply", "-f", "-", stdin=vpa % "InPlace")
        warning = "vpa/scaled (mode InPlace) controls cpu of container host and will overwrite this size"
        assert warning in podfit(up, *ask).err
    finally:
        up.kubectl("delete", "vpa", "scaled")
        up.kubectl("delete", "deployment", "scaled", "--timeout=60s")
