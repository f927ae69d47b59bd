"""The unmodified autoscaler of Kubernetes (recommender, updater, admission controller) on podfit's API server and node.

Its programs are in the folder `vpa` below `$PODFIT_KUBERNETES`. The test follows upstream's own end-to-end tests:
recommendation, update in place, webhook, eviction.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import LEASE, POD, VPA, kind_named
from podfit.apiserver.auth.certs.pki import Pki
from podfit.client.kubeconfig import load
from podfit.client.rest import Client
from podfit.kit.web.addresses import free_port
from tests.e2e.conftest import Running
from tests.support.cluster.expect import all_become, becomes

from .programs import PROGRAMS

PARTS = ("recommender", "updater", "admission-controller")
MISSING = [name for name in PARTS if not (PROGRAMS / "vpa" / name).exists()]
PATIENCE_S = 120.0
DEPLOYMENT, HOOKS = kind_named("Deployment"), kind_named("MutatingWebhookConfiguration")
LOAD = {"podfit.dev/fake-cpu": "constant:450m", "podfit.dev/fake-memory": "constant:20Mi"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"there is no {', no '.join(MISSING)} of Kubernetes' autoscaler"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl"),
]


def _programs(folder: Path, kubeconfig: Path) -> list[tuple[str, list[str]]]:
    """Starts the components with intervals of seconds, and the webhook at an address instead of a Service."""
    Pki(folder / "pki", ["127.0.0.1"])
    keys, hook = folder / "pki", free_port()
    access = f"--kubeconfig={kubeconfig}"
    ports = [f"--address=127.0.0.1:{free_port()}" for _ in PARTS]
    tls = [f"--client-ca-file={keys / 'ca.crt'}", f"--tls-cert-file={keys / 'apiserver.crt'}"]
    tls.append(f"--tls-private-key={keys / 'apiserver.key'}")
    by_url = ["--register-by-url=true", "--webhook-address=https://127.0.0.1", f"--webhook-port={hook}"]
    return [
        ("recommender", [access, ports[0], "--recommender-interval=2s"]),
        ("updater", [access, ports[1], "--updater-interval=2s", "--min-replicas=1"]),
        ("admission-controller", [access, ports[2], f"--port={hook}", *tls, *by_url]),
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Running]:
    flags = ("--runtime", "fake", "--no-vpa", "--meter-resolution", "1", "--node-cpu", "16", "--node-memory", "32Gi")
    up = Running(tmp_path / "up", *flags).start()
    started = []
    try:
        for name, words in _programs(tmp_path, up.kubeconfig):
            with (tmp_path / f"{name}.log").open("wb") as log:
                command = [PROGRAMS / "vpa" / name, *words]
                started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path))
        yield up
    finally:
        for program in reversed(started):
            program.terminate()
            program.wait(20)
        up.stop()
        for name in PARTS:
            print(f"--- {name}", *(tmp_path / f"{name}.log").read_text().splitlines()[-15:], sep="\n")


@pytest.fixture
async def client(cluster: Running) -> AsyncIterator[Client]:
    made = Client(load(str(cluster.kubeconfig)).transport("story"))
    yield made
    await made.close()


def _milli(pod: Object) -> int:
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    return Quantity.parse(requests["cpu"]).milli


def _restarts(pod: Object) -> int:
    return sum(status["restartCount"] for status in (pod.get("status") or {}).get("containerStatuses") or ())


async def test_the_real_autoscaler_recommends_resizes_in_place_admits_and_evicts(client: Client) -> None:
    labels = {"app": "hamster"}
    container = {"name": "c", "image": "hamster", "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}}}
    template = {"metadata": {"labels": labels, "annotations": LOAD}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "hamster", "namespace": "default"}
    await client.create(DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hamster"}
    policy = {"updateMode": "InPlaceOrRecreate", "minReplicas": 1}
    body = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": meta}
    await client.create(VPA, {**body, "spec": {"targetRef": target, "updatePolicy": policy}})

    def recommended(vpa: Object | None) -> bool:
        given = ((vpa or {}).get("status") or {}).get("recommendation") or {}
        return any(
            Quantity.parse(recommendation["target"]["cpu"]).milli > 400
            for recommendation in given.get("containerRecommendations") or ()
        )

    await becomes(client, VPA, "default", "hamster", recommended, PATIENCE_S)

    def grown(pods: list[Object]) -> bool:
        return len(pods) == 2 and all(_milli(pod) > 400 for pod in pods)

    before = await all_become(client, POD, "default", grown, PATIENCE_S)
    assert [_restarts(pod) for pod in before] == [0, 0], "in place"

    await becomes(client, LEASE, "kube-system", "vpa-admission-controller", bool, PATIENCE_S)
    await becomes(client, HOOKS, "", "vpa-webhook-config", bool, PATIENCE_S)
    await client.patch(DEPLOYMENT, "default", "hamster", {"spec": {"replicas": 3}})
    pods = await all_become(client, POD, "default", lambda found: len(found) == 3, PATIENCE_S)
    known = {pod["metadata"]["uid"] for pod in before}
    [new] = [pod for pod in pods if pod["metadata"]["uid"] not in known]
    assert _milli(new) > 400 and "vpaUpdates" in new["metadata"]["annotations"], "sized at its admission"

    least = {"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "900m"}}]}
    changed = {"spec": {"updatePolicy": {"updateMode": "Recreate"}, "resourcePolicy": least}}
    await client.patch(VPA, "default", "hamster", changed)
    gone = {pod["metadata"]["uid"] for pod in pods}

    def replaced(found: list[Object]) -> bool:
        fresh = [pod for pod in found if pod["metadata"]["uid"] not in gone]
        return len(fresh) == 3 and all(_milli(pod) >= 900 for pod in fresh)

    await all_become(client, POD, "default", replaced, PATIENCE_S)
