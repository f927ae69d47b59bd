"""Real kubectl commands, as users type them, against `podfit up`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Running, eventually

pytestmark = pytest.mark.usefixtures("node_runtime")

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: demo}}
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
RESIZE = '{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"300m","memory":"96Mi"}}}]}}'


def running(up: Running, name: str) -> None:
    up.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


@pytest.fixture
def pod(up: Running, request: pytest.FixtureRequest) -> str:
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:40].strip("-")
    up.kubectl("apply", "-f", "-", stdin=POD % name)
    running(up, name)
    request.addfinalizer(lambda: up.kubectl("delete", "pod", name, "--ignore-not-found", "--now"))
    return name


def test_resize_changes_the_running_pod_and_its_status(up: Running, pod: str) -> None:
    up.kubectl("patch", "pod", pod, "--subresource", "resize", "--patch", RESIZE)
    wanted = {"cpu": "300m", "memory": "96Mi"}
    eventually(
        lambda: up.json("get", "pod", pod)["status"]["containerStatuses"][0]["resources"]["limits"] == wanted,
        "the status shows the new limits",
    )
    status = up.json("get", "pod", pod)["status"]
    assert status["containerStatuses"][0]["restartCount"] == 0
    assert not any(condition["type"].startswith("PodResize") for condition in status["conditions"])


def test_get_and_describe_print_what_users_expect(up: Running, pod: str) -> None:
    lines = up.kubectl("get", "pod", pod).splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:4] == [pod, "1/1", "Running", "0"]
    described = up.kubectl("describe", "pod", pod)
    assert "QoS Class:" in described and "Started" in described
    assert "n1" in up.kubectl("get", "nodes", "-o", "wide")


def test_server_side_apply_and_diff_work(up: Running, pod: str) -> None:
    manifest = yaml.safe_load(POD % pod)
    manifest["metadata"]["labels"]["tier"] = "front"
    text = json.dumps(manifest)
    assert "tier" in up.kubectl("diff", "-f", "-", stdin=text, fails=True)
    up.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    assert up.json("get", "pod", pod)["metadata"]["labels"]["tier"] == "front"
    assert up.kubectl("diff", "--server-side", "-f", "-", "--force-conflicts", stdin=text) == ""


def test_label_annotate_and_selectors_work(up: Running, pod: str) -> None:
    up.kubectl("label", "pod", pod, "mark=yes")
    up.kubectl("annotate", "pod", pod, "note=hello")
    assert up.kubectl("get", "pods", "-l", "mark=yes", "-o", "name").split() == [f"pod/{pod}"]
    assert up.json("get", "pod", pod)["metadata"]["annotations"]["note"] == "hello"


def test_a_bad_patch_gets_the_message_of_kubernetes(up: Running, pod: str) -> None:
    bad = '{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"900m"}}}]}}'
    said = up.kubectl("patch", "pod", pod, "--subresource", "resize", "--patch", bad, fails=True)
    assert "must be less than or equal to cpu limit of 200m" in said


def test_a_deployment_rolls_scales_and_rolls_back(up: Running) -> None:
    up.kubectl("create", "deployment", "web", "--image=host", "--replicas=2", "--", "sleep", "3600")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    up.kubectl("scale", "deployment/web", "--replicas=3")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    up.kubectl("set", "resources", "deployment/web", "--requests=cpu=50m")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "REVISION" in up.kubectl("rollout", "history", "deployment/web")
    up.kubectl("rollout", "undo", "deployment/web")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert not up.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"][0]["resources"]
    up.kubectl("delete", "deployment", "web", "--wait=true", "--timeout=60s")


def test_explain_and_api_resources_know_the_kinds(up: Running) -> None:
    assert "resizePolicy" in up.kubectl("explain", "pod.spec.containers")
    assert "recommendation" in up.kubectl("explain", "vpa.status")
    listed = up.kubectl("api-resources")
    assert "verticalpodautoscalers" in listed and "deployments" in listed


def test_permissions_can_be_requested(up: Running) -> None:
    assert up.kubectl("auth", "can-i", "patch", "pods/resize").strip() == "yes"
    assert "no" in up.kubectl("auth", "can-i", "list", "secrets", "--as", "jane", fails=True)
    assert up.kubectl("create", "token", "default").count(".") == 2


def test_a_namespace_with_quota_is_counted_and_deleted(up: Running) -> None:
    up.kubectl("create", "namespace", "team")
    up.kubectl("create", "quota", "q", "-n", "team", "--hard=cpu=150m,pods=2")
    eventually(lambda: up.json("get", "quota", "q", "-n", "team").get("status", {}).get("hard"), "the quota is counted")
    eventually(lambda: up.json("get", "sa", "-n", "team")["items"], "the default service account exists")
    up.kubectl("apply", "-n", "team", "-f", "-", stdin=POD % "one")
    said = up.kubectl("apply", "-n", "team", "-f", "-", stdin=POD % "two", fails=True)
    assert "exceeded quota: q, requested: cpu=100m, used: cpu=100m, limited: cpu=150m" in said
    up.kubectl("delete", "namespace", "team", "--timeout=60s")


def test_edit_writes_back_what_the_editor_changed(
    up: Running, pod: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/app: demo/app: edited/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))
    up.kubectl("edit", "pod", pod)
    assert up.json("get", "pod", pod)["metadata"]["labels"]["app"] == "edited"


def test_drain_respects_a_disruption_budget(up: Running) -> None:
    up.kubectl("create", "deployment", "kept", "--image=host", "--replicas=2", "--", "sleep", "3600")
    up.kubectl("rollout", "status", "deployment/kept", "--timeout=60s")
    up.kubectl("create", "pdb", "kept", "--selector=app=kept", "--min-available=2")
    eventually(
        lambda: up.json("get", "pdb", "kept").get("status", {}).get("currentHealthy") == 2, "the budget is counted"
    )
    said = up.kubectl("drain", "n1", "--timeout=3s", "--ignore-daemonsets", "--force", fails=True)
    assert "Cannot evict pod as it would violate the pod's disruption budget" in said
    up.kubectl("uncordon", "n1")
    up.kubectl("delete", "deployment/kept", "pdb/kept", "--timeout=60s")
