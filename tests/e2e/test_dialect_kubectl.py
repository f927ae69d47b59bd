"""kubectl in namespaces of every dialect: get, describe, apply, patch, server-side apply, replace."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.e2e.conftest import Running, eventually

LABEL = "podfit.dev/resize-dialect"
POLICY = {
    "2020": {"resourceName": "cpu", "policy": "NoRestart"},
    "2021": {"resourceName": "cpu", "policy": "RestartNotRequired"},
    "v1.31": {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    "v1.32": {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    "v1.35": {"resourceName": "cpu", "restartPolicy": "NotRequired"},
}
ON_POD = ("2020", "2021", "v1.31")
EVERY = pytest.mark.parametrize("dialect", POLICY)


@pytest.fixture
def space(up: Running, dialect: str) -> str:
    name = "k-" + dialect.replace(".", "-")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {LABEL: dialect}}}
    up.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    eventually(lambda: "default" in up.kubectl("get", "sa", "-n", name), "the namespace has its account")
    return name


def manifest(dialect: str, cpu: str = "100m") -> str:
    sizes = {"requests": {"cpu": cpu, "memory": "32Mi"}, "limits": {"cpu": "400m", "memory": "64Mi"}}
    endless = "while true; do echo here; sleep 0.2; done"
    one = {"name": "c", "image": "host", "command": ["sh", "-c", endless], "resources": sizes}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [{**one, "resizePolicy": [POLICY[dialect]]}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})


@pytest.fixture
def pod(up: Running, dialect: str, space: str, request: pytest.FixtureRequest) -> Any:
    def get() -> Any:
        return up.json("get", "pod", "p", "-n", space)

    up.kubectl("apply", "-n", space, "-f", "-", stdin=manifest(dialect))
    request.addfinalizer(lambda: up.kubectl("delete", "pod", "p", "-n", space, "--now"))
    up.kubectl("wait", "--for=condition=Ready", "pod/p", "-n", space, "--timeout=60s")
    return get


def actual(pod: Any) -> str:
    return str(pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"])


@EVERY
def test_get_shows_the_pod_in_the_dialect(pod: Any, dialect: str) -> None:
    shown = pod()["spec"]["containers"][0]
    assert shown["resizePolicy"][0] == POLICY[dialect]
    assert ("resourcesAllocated" in shown) == (dialect == "2020")


@EVERY
def test_get_and_describe_print_the_pod(up: Running, pod: Any, space: str) -> None:
    assert up.kubectl("get", "pods", "-n", space).splitlines()[1].split()[:3] == ["p", "1/1", "Running"]
    reported = up.kubectl("describe", "pod", "p", "-n", space)
    assert "100m" in reported and "Status:           Running" in reported


@EVERY
def test_patch_resizes_the_pod(up: Running, pod: Any, dialect: str, space: str) -> None:
    patch = json.dumps({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}})
    door = () if dialect in ON_POD else ("--subresource", "resize")
    up.kubectl("patch", "pod", "p", "-n", space, *door, "--patch", patch)
    eventually(lambda: actual(pod()) == "200m", "the container has its new size")


@pytest.mark.parametrize("dialect", ON_POD)
@pytest.mark.parametrize("how", [(), ("--server-side", "--force-conflicts")], ids=["client-side", "server-side"])
def test_apply_resizes_the_pod(up: Running, pod: Any, dialect: str, space: str, how: tuple[str, ...]) -> None:
    up.kubectl("apply", "-n", space, *how, "-f", "-", stdin=manifest(dialect, "250m"))
    eventually(lambda: actual(pod()) == "250m", "the container has its new size")


@pytest.mark.parametrize("dialect", ON_POD)
def test_replace_resizes_the_pod(up: Running, pod: Any, space: str) -> None:
    body = pod()
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150m"
    up.kubectl("replace", "-n", space, "-f", "-", stdin=json.dumps(body))
    eventually(lambda: actual(pod()) == "150m", "the container has its new size")


@pytest.mark.parametrize("dialect", ["2021"])
def test_a_policy_of_another_dialect_is_refused_by_name(up: Running, space: str) -> None:
    reported = up.kubectl("apply", "-n", space, "-f", "-", stdin=manifest("v1.31"), fails=True)
    assert 'unknown field "spec.containers[0].resizePolicy[0].restartPolicy"' in reported


@pytest.fixture
def explained(up: Running, pod: Any, space: str) -> Any:
    """A pod of 2021 whose `status.resize` is a map, which the types of a newer kubectl cannot decode."""
    sizes = {"requests": {"cpu": "5000"}, "limits": {"cpu": "5000"}}
    patch = json.dumps({"spec": {"containers": [{"name": "c", "resources": sizes}]}})
    up.kubectl("patch", "pod", "p", "-n", space, "--patch", patch)
    eventually(lambda: pod()["status"].get("resize") == {"cpu": "Infeasible"}, "the node has rejected the resize")
    return pod


@pytest.mark.parametrize("dialect", ["2021"])
@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("describe", "pod", "p"), "Status:           Running"),
        (("logs", "p", "--tail=1"), "here"),
        (("exec", "p", "--", "echo", "inside"), "inside"),
    ],
    ids=["describe", "logs", "exec"],
)
def test_a_newer_kubectl_works_on_a_pod_whose_resize_is_explained_by_a_map(
    up: Running, explained: Any, space: str, words: tuple[str, ...], reported: str
) -> None:
    assert reported in up.kubectl("-n", space, *words)


@pytest.mark.parametrize("dialect", ["2021"])
@pytest.mark.parametrize(
    ("words", "reported"),
    [(("attach", "p"), "here"), (("port-forward", "p", ":8080"), "Forwarding from")],
    ids=["attach", "port-forward"],
)
def test_a_newer_kubectl_connects_to_a_pod_whose_resize_is_explained_by_a_map(
    up: Running, explained: Any, space: str, words: tuple[str, ...], reported: str
) -> None:
    command = ["kubectl", f"--kubeconfig={up.kubeconfig}", "-n", space, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as kubectl:
        assert kubectl.stdout is not None
        said = []
        for line in kubectl.stdout:
            said.append(line)
            if reported in line:
                break
        kubectl.terminate()
    assert reported in said[-1], said
