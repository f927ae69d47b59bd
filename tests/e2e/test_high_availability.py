"""Several API servers, schedulers and controllers on one etcd: losing the leaders causes a pause and nothing else."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.e2e.parts import Etcd, Part
from tests.e2e.test_matrix import DEPLOYMENT

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed"),
]


def test_the_cluster_keeps_working_when_a_server_and_both_leaders_are_killed(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path / "etcd")
    folder, parts = tmp_path / "data", []
    views = [Running(folder), Running(folder)]
    try:
        for number, view in enumerate(views):
            view.kubeconfig = tmp_path / f"admin-{number}.kubeconfig"
            place = ("--data-dir", str(folder), "--listen", "127.0.0.1:0", "--kubeconfig", str(view.kubeconfig))
            parts.append(Part("apiserver", "--store", f"etcd={etcd.url}", *place, ready=True))
        first, second = (str(view.kubeconfig) for view in views)
        leaders = [Part(what, "--leader-elect", "--kubeconfig", first) for what in ("controllers", "scheduler")]
        parts += leaders
        node = ("--node-name", "n1", "--runtime", "fake", "--data-dir", str(tmp_path / "agent"))
        parts.append(Part("agent", "--kubeconfig", second, *node, ready=True))
        view = views[1]
        eventually(lambda: len(view.json("get", "lease", "-n", "kube-system")["items"]) == 2, "both lead")
        parts += [Part(what, "--leader-elect", "--kubeconfig", second) for what in ("controllers", "scheduler")]
        eventually(lambda: view.json("get", "sa")["items"], "the default service account exists")
        view.kubectl("apply", "-f", "-", stdin=json.dumps(DEPLOYMENT))
        view.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        before = {pod["metadata"]["uid"] for pod in view.json("get", "pods")["items"]}
        for dead in (*leaders, parts[0]):
            dead.stop(signal.SIGKILL)
        view.kubectl("scale", "deployment/web", "--replicas=5")
        view.kubectl("rollout", "status", "deployment/web", "--timeout=90s")
        after = {pod["metadata"]["uid"] for pod in view.json("get", "pods")["items"]}
        assert before < after and len(after) == 5
    finally:
        for part in reversed(parts):
            part.stop()
        etcd.stop()
