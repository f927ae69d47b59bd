"""podfit's components as clients of the real kube-apiserver 1.31 and 1.32: agent, `resize`, `describe`, updater.

They need `v1.31/kube-apiserver` and `v1.32/kube-apiserver` in the folder that `$PODFIT_KUBERNETES` names, and etcd; no
package contains the kube-apiservers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from podfit.apiserver.auth.certs.kubeconfigs import write_kubeconfig
from podfit.apiserver.auth.certs.pki import Pki
from podfit.apiserver.bootstrap import vpa_definitions
from tests.e2e.conftest import KUBECTL, eventually
from tests.e2e.parts import Etcd, Part, free_port

PROGRAMS = Path(os.environ.get("PODFIT_KUBERNETES", "/nonexistent"))
VERSIONS = ("v1.31", "v1.32")
LACKING = [f"{name}/kube-apiserver" for name in VERSIONS if not (PROGRAMS / name / "kube-apiserver").exists()]
LACKING += [name for name in ("etcd", "kubectl") if shutil.which(name) is None]
GATE = "--feature-gates=InPlacePodVerticalScaling=true"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(LACKING), reason=f"there is no {', no '.join(LACKING)}"),
]


class Real:
    """etcd and a kube-apiserver, without scheduler and controllers."""

    def __init__(self, folder: Path, version: str, *flags: str) -> None:
        self.folder, port = folder, free_port()
        self.pki = Pki(folder / "pki", ["127.0.0.1"])
        self.url, keys = f"https://127.0.0.1:{port}", folder / "pki"
        public = self.pki.signing_key.public_key()
        (keys / "sa.pub").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        self.etcd = Etcd(folder / "etcd")
        self.kubeconfig = self.config("admin", None)
        command = [
            *(str(PROGRAMS / version / "kube-apiserver"), f"--etcd-servers={self.etcd.url}", f"--secure-port={port}"),
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--service-cluster-ip-range=10.96.0.0/16"),
            *(f"--tls-cert-file={keys}/apiserver.crt", f"--tls-private-key-file={keys}/apiserver.key"),
            *(f"--client-ca-file={keys}/ca.crt", "--service-account-issuer=https://kubernetes.default.svc"),
            *(f"--service-account-key-file={keys}/sa.pub", f"--service-account-signing-key-file={keys}/sa.key"),
            *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", *flags),
        ]
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)

    def config(self, name: str, node: str | None) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        write_kubeconfig(path, self.url, self.pki.ca, pair=self.pki.admin if node is None else self.pki.node(node))
        return path

    def kubectl(self, *arguments: str, body: Any = None) -> str:
        assert KUBECTL is not None
        return self._run(KUBECTL, *arguments, body=body)

    def podfit(self, *arguments: str, fails: bool = False) -> str:
        return self._run(sys.executable, "-m", "podfit.cli.main", *arguments, fails=fails)

    def _run(self, *command: str, body: Any = None, fails: bool = False) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        done = subprocess.run(
            command,
            input=None if body is None else json.dumps(body),
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr if fails else done.stdout

    def answers(self) -> bool:
        assert KUBECTL is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        command = [KUBECTL, f"--kubeconfig={self.kubeconfig}", "get", "--raw=/readyz"]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0

    def pod(self, name: str = "p") -> Any:
        return json.loads(self.kubectl("get", "pod", name, "-o", "json"))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.etcd.stop()
        self.log.close()


def started(folder: Path, version: str, *flags: str) -> Real:
    real = Real(folder, version, *flags)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    try:
        eventually(real.answers, "the API server is ready", 180)
        real.kubectl("apply", "-f", "-", body=account)
    except BaseException:
        real.stop()
        raise
    return real


@pytest.fixture(scope="module", params=VERSIONS)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """A server with podfit's agent as its node, on the fake runtime."""
    made = started(tmp_path_factory.mktemp("real"), request.param, GATE)
    try:
        node = ("--node-name", "n1", "--runtime", "fake", "--node-cpu", "4", "--node-memory", "8Gi", "--port", "0")
        config, data = str(made.config("node", "n1")), str(made.folder / "agent")
        agent = Part("agent", "--kubeconfig", config, "--data-dir", data, *node)
        try:
            eventually(lambda: " Ready " in made.kubectl("get", "nodes"), "the node is ready")
            yield made
        finally:
            agent.stop()
    finally:
        made.stop()


def pod_of(name: str, cpu: str = "100m", **meta: Any) -> Any:
    sizes = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    container = {"name": "c", "image": "busybox", "resources": sizes}
    spec = {"nodeName": "n1", "automountServiceAccountToken": False, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def running(real: Real, name: str, **meta: Any) -> str:
    real.kubectl("apply", "-f", "-", body=pod_of(name, **meta))
    eventually(lambda: actual(real, name) == "100m", "the pod runs")
    return name


def actual(real: Real, name: str) -> str:
    statuses = real.pod(name)["status"].get("containerStatuses") or [{}]
    return str(((statuses[0].get("resources") or {}).get("requests") or {}).get("cpu", ""))


def test_resize_waits_until_our_agent_has_resized_the_pod(real: Real) -> None:
    name = running(real, "grows")
    real.podfit("resize", name, "--cpu", "300m")
    assert actual(real, name) == "300m"
    eventually(lambda: "resize" not in real.pod(name)["status"], "the resize is done")


def test_the_agent_reports_a_resize_that_cannot_be_in_the_word_of_the_release(real: Real) -> None:
    name = running(real, "never")
    real.podfit("resize", name, "--cpu", "400", "--no-wait")
    eventually(lambda: real.pod(name)["status"].get("resize") == "Infeasible", "the node has rejected the resize")
    assert not [
        condition for condition in real.pod(name)["status"]["conditions"] if condition["type"].startswith("PodResize")
    ]


def test_describe_reads_the_word_of_the_release(real: Real) -> None:
    name = running(real, "described")
    real.podfit("resize", name, "--cpu", "400", "--no-wait")
    eventually(lambda: real.pod(name)["status"].get("resize") == "Infeasible", "the node has rejected the resize")
    assert "Infeasible" in real.podfit("describe", "pod", name)


def test_the_updater_resizes_a_pod_to_its_recommendation(real: Real) -> None:
    for definition in vpa_definitions():
        real.kubectl("apply", "--server-side", "-f", "-", body=definition)
    owner = replica_set(real)
    name = running(real, "owned", labels={"app": "owned"}, ownerReferences=[owner])
    real.kubectl("wait", "--for=condition=Established", "crd/verticalpodautoscalers.autoscaling.k8s.io")
    eventually(lambda: recommended(real), "the recommendation is written")
    flags = ("--min-replicas=1", "--updater-interval=1s", "--address=127.0.0.1:0")
    updater = Part("vpa", "updater", f"--kubeconfig={real.kubeconfig}", *flags)
    try:
        eventually(lambda: actual(real, name) == "500m", "the updater has resized the pod", 120)
    finally:
        updater.stop()


def replica_set(real: Real) -> Any:
    template = {"metadata": {"labels": {"app": "owned"}}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "owned"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "owned"}, "spec": spec}
    real.kubectl("apply", "-f", "-", body=body)
    uid = json.loads(real.kubectl("get", "rs", "owned", "-o", "json"))["metadata"]["uid"]
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owned", "uid": uid, "controller": True}


def recommended(real: Real) -> bool:
    """A VerticalPodAutoscaler for the ReplicaSet, with a recommendation as the recommender would write it."""
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owned"}
    spec = {"targetRef": target, "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1}}
    body = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "owned"}}
    real.kubectl("apply", "-f", "-", body={**body, "spec": spec})
    amounts = {"cpu": "500m", "memory": "128Mi"}
    one = {"containerName": "c", "target": amounts, "uncappedTarget": amounts}
    one |= {"lowerBound": {"cpu": "400m", "memory": "100Mi"}, "upperBound": {"cpu": "1", "memory": "1Gi"}}
    status = {
        "conditions": [{"type": "RecommendationProvided", "status": "True"}],
        "recommendation": {"containerRecommendations": [one]},
    }
    patch = json.dumps({"status": status})
    real.kubectl("patch", "vpa", "owned", "--type=merge", "--subresource=status", "-p", patch)
    return "500m" in real.kubectl("get", "vpa", "owned", "-o", "json")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_whose_gate_is_off_is_named_in_one_sentence(tmp_path: Path, version: str) -> None:
    real = started(tmp_path, version)
    try:
        real.kubectl("apply", "-f", "-", body=pod_of("p"))
        said = real.podfit("resize", "p", "--cpu", "200m", "--no-wait", fails=True)
        assert f"the API server ({version}" in said
        assert "does not resize pods in place: InPlacePodVerticalScaling is off" in said
    finally:
        real.stop()
