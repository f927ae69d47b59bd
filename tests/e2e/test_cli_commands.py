"""podfit's own commands, as users type them, against `podfit up`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
import yaml

from tests.e2e.conftest import Running, eventually

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: cli}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: host
    command: [sh, -c, "while true; do sleep 1; done"]
    resources:
      requests: {cpu: 100m, memory: 32Mi}
      limits: {cpu: 200m, memory: 64Mi}
"""


@dataclass
class Said:
    code: int
    out: str
    err: str


def podfit(up: Running, *words: str, **environment: str) -> Said:
    own = {**os.environ, "KUBECONFIG": str(up.kubeconfig), "NO_COLOR": "1", **environment}
    command = [sys.executable, "-m", "podfit.cli.main", *words]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def pod(up: Running, request: pytest.FixtureRequest) -> str:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    up.kubectl("apply", "-f", "-", stdin=POD % name)
    up.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
    request.addfinalizer(lambda: up.kubectl("delete", "pod", name, "--ignore-not-found", "--now"))
    return name


def test_resize_stays_until_the_kernel_has_it(up: Running, pod: str) -> None:
    said = podfit(up, "resize", pod, "--cpu", "150m", "--limits", "cpu=300m,memory=96Mi")
    assert said.code == 0, said.err
    assert said.out.startswith(f"pod/{pod} resized: c cpu request 100m → 150m")
    assert "Actual" in said.err
    status = up.json("get", "pod", pod)["status"]["containerStatuses"][0]
    assert status["resources"]["limits"] == {"cpu": "300m", "memory": "96Mi"} and status["restartCount"] == 0


def test_invalid_requests_are_explained_and_change_nothing(up: Running, pod: str) -> None:
    before = up.json("get", "pod", pod)["metadata"]["generation"]
    for words, reported in (
        (["--cpu", "1x"], "quantities must match"),
        (["-c", "web", "--cpu", "1"], "no container 'web'"),
        (["--cpu", "300m"], "--limits cpu=300m"),
        (["--cpu", "200m", "--memory", "64Mi"], "would become Guaranteed"),
        ([], "say what to change"),
        (["--cpu", "150m", "--dry-run=maybe"], "Invalid dry-run value (maybe)"),
    ):
        said = podfit(up, "resize", pod, *words)
        assert (said.code, said.out) == (2, "") and reported in said.err, said
    [node] = up.json("get", "nodes")["items"]
    for words, reported in (
        (["resize", f"node/{node['metadata']['name']}", "--cpu", "1"], "has no pods of its own"),
        (["resize", f"pod/{pod}", "-l", "app=cli", "--cpu", "1"], "a selector cannot be used together with TYPE/NAME"),
        (["events", "--types", "Warnings"], "it is Normal, Warning or both"),
        (["describe", "nokind", "x"], 'the server doesn\'t have a resource type "nokind"'),
    ):
        said = podfit(up, *words)
        assert (said.code, said.out) == (2, "") and reported in said.err, said
    assert podfit(up, "resize", "nobody", "--cpu", "1").code == 1
    assert podfit(up, "resize", "pod/nobody", "--cpu", "1").err == 'podfit: pods "nobody" not found\n'
    assert up.json("get", "pod", pod)["metadata"]["generation"] == before


def test_dry_runs_change_nothing(up: Running, pod: str) -> None:
    for how in ("client", "server"):
        said = podfit(up, "resize", f"pod/{pod}", "--cpu", "150m", "--dry-run", how)
        assert said.code == 0 and "100m → 150m" in said.out
    shown = yaml.safe_load(podfit(up, "resize", pod, "--cpu", "150m", "--dry-run", "client", "-o", "yaml").out)
    assert shown["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "150m"
    assert up.json("get", "pod", pod)["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "100m"


def test_a_rejection_by_a_node_has_its_own_exit_code(up: Running, pod: str) -> None:
    said = podfit(up, "resize", pod, "--cpu", "64", "--limits", "cpu=64")
    assert said.code == 3 and "Infeasible: needs 64 cpu, node n1 has 4 in all" in said.err
    assert "needs 64" in podfit(up, "explain", "resize", pod).out
    assert podfit(up, "resize", pod, "--cpu", "100m", "--limits", "cpu=200m").code == 0


def test_a_deferred_resize_is_explained_and_freed(up: Running, pod: str) -> None:
    big = f"{pod[:30]}-big"
    up.kubectl("apply", "-f", "-", stdin=(POD % big).replace("100m", "3").replace("200m", "3500m"))
    up.kubectl("wait", "--for=condition=Ready", f"pod/{big}", "--timeout=60s")
    try:
        said = podfit(up, "resize", pod, "--cpu", "2", "--limits", "cpu=2500m", "--timeout", "2")
        assert said.code == 4 and "Deferred: needs 2 cpu" in said.err
        why = podfit(up, "explain", "resize", pod).out
        assert f"default/{big}" in why and "short" in why
        assert "Deferred" in podfit(up, "describe", "pod", pod).out
        assert podfit(up, "resize", big, "--cpu", "100m", "--limits", "cpu=200m").code == 0
        eventually(lambda: "resize complete" in podfit(up, "explain", "resize", pod).out, "the resize is granted")
    finally:
        up.kubectl("delete", "pod", big, "--now")


def test_all_pods_of_a_workload_are_resized(up: Running) -> None:
    up.kubectl("create", "deployment", "many", "--image=host", "--replicas=3", "--", "sleep", "3600")
    up.kubectl("set", "resources", "deployment/many", "--requests=cpu=50m")
    up.kubectl("rollout", "status", "deployment/many", "--timeout=60s")
    try:
        said = podfit(up, "resize", "deploy/many", "--cpu", "60m")
        assert said.code == 0 and said.out.count("resized") == 3 and "template is unchanged" in said.err
        names = podfit(up, "resize", "deploy", "many", "--cpu", "70m", "-o", "name").out.split()
        assert len(names) == 3 and all(name.startswith("pod/many-") for name in names)
        assert podfit(up, "resize", "-l", "app=many", "--cpu", "80m").out.count("resized") == 3
        assert podfit(up, "resize", "-l", "app=nobody", "--cpu", "80m").code == 2
    finally:
        up.kubectl("delete", "deployment", "many", "--timeout=60s")


def test_describe_shows_the_four_states_and_the_story(up: Running, pod: str) -> None:
    podfit(up, "resize", pod, "--cpu", "150m")
    page = podfit(up, "describe", "pod", pod).out
    for word in ("DESIRED", "ALLOCATED", "ACTUATED", "ACTUAL", "150m/200m", "Story:", "Pod resize completed"):
        assert word in page, page
    reported = json.loads(podfit(up, "describe", f"pod/{pod}", "-o", "json").out)
    assert reported["statesFrom"] == "node" and reported["states"][0]["actuated"]["requests"]["cpu"] == "150m"


def test_explain_pod_says_for_each_node_what_is_lacking(up: Running) -> None:
    up.kubectl("apply", "-f", "-", stdin=(POD % "huge").replace("100m", "40").replace("200m", "40"))
    try:
        reported = podfit(up, "explain", "pod", "huge").out
        assert "none of 1 can take it" in reported and "Insufficient cpu" in reported and "missing" in reported
    finally:
        up.kubectl("delete", "pod", "huge", "--now")


def test_top_shows_usage_beside_requests(up: Running, pod: str) -> None:
    def shown() -> bool:
        listed = json.loads(podfit(up, "top", "-o", "json").out)["items"]
        return any(obj["metadata"]["name"] == pod and obj["containers"][0].get("usage") for obj in listed)

    eventually(shown, "usage is measured")
    lines = podfit(up, "top", "pods", "-l", "app=cli").out.splitlines()
    assert lines[0].split()[:2] == ["POD", "CONTAINER"] and any(pod in line for line in lines)
    assert "n1" in podfit(up, "top", "nodes").out
    assert podfit(up, "top", "vpa", "-A").code == 0
    assert podfit(up, "top", "coffee").code == 2


def test_events_are_listed_and_filtered(up: Running, pod: str) -> None:
    podfit(up, "resize", pod, "--cpu", "150m")
    eventually(lambda: "ResizeCompleted" in podfit(up, "events", "--for", f"pod/{pod}", "--resizes").out, "it is told")
    lines = podfit(up, "events", "--for", pod, "--resizes").out.splitlines()
    assert all("Resize" in line for line in lines[1:]) and "c cpu 150m/200m" in lines[-1]
    assert podfit(up, "events", "--types", "Warning", "--for", pod).out == ""


def test_doctor_recognises_its_own_port(up: Running) -> None:
    port = json.loads(up.kubeconfig.read_text())["clusters"][0]["cluster"]["server"].rpartition(":")[2]
    said = podfit(up, "doctor", "--listen", f"127.0.0.1:{port}", "--data-dir", str(up.folder), "-o", "json")
    found = {row["name"]: row for row in json.loads(said.out)}
    assert found[f"port {port}"]["level"] == "ok" and "podfit" in found[f"port {port}"]["found"]
    assert found["kubeconfig"]["level"] == found["API server"]["level"] == "ok"


def test_tokens_are_listed_until_they_are_deleted(up: Running) -> None:
    made = podfit(up, "token", "create", "--ttl", "1").out.split()
    token = made[made.index("--token") + 1]
    assert podfit(up, "token", "list").out.splitlines()[0].split() == ["TOKEN", "TTL", "EXPIRES", "USAGES"]
    listed = {item["token"]: item for item in json.loads(podfit(up, "token", "list", "-o", "json").out)["items"]}
    assert listed[token]["usages"] == ["authentication", "signing"] and listed[token]["expires"]
    assert podfit(up, "token", "delete", token).code == 0
    assert token not in podfit(up, "token", "list").out
    assert podfit(up, "token", "delete", token).code == 1


def test_version_and_doctor_query_the_server(up: Running) -> None:
    reported = json.loads(podfit(up, "version", "-o", "json").out)
    assert reported["server"]["gitVersion"].startswith("v1.36")
    said = podfit(up, "doctor", "--only", "cluster", "-o", "json")
    assert said.code == 0 and {row["name"]: row["level"] for row in json.loads(said.out)}["API server"] == "ok"
    assert podfit(up, "version", "--client", KUBECONFIG="/nowhere").code == 0
    assert podfit(up, "version", KUBECONFIG="/nowhere").code == 1
    assert podfit(up, "version", "--context", "nobody").code == 1
