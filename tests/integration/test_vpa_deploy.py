"""The manifests under deploy/vpa: they allow what the components need, over plain HTTPS with their own tokens."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.cluster.autoscaling import Autoscaled
from tests.support.cluster.nodes import local_client

from podfit.api.registry.kinds import VPA, VPA_CHECKPOINT, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, HttpTransport, Reply, Stream
from podfit.store.memory import MemoryStore
from podfit.vpa.admission.config import AdmissionConfig, admission_config
from podfit.vpa.admission.loop import AdmissionWebhook
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.config import UpdaterConfig, updater_config
from podfit.vpa.updater.loop import Updater

FOLDER = Path(__file__).parents[2] / "deploy" / "vpa"
RBAC = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def manifests() -> list[dict[str, Any]]:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return [item for file in listed for item in yaml.safe_load_all((FOLDER / file).read_text()) if item]


class Watched:
    """A transport that records forbidden requests."""

    def __init__(self, inner: HttpTransport) -> None:
        self._inner = inner
        self.refused: list[str] = []

    async def request(self, ask: ClientRequest) -> Reply:
        reply = await self._inner.request(ask)
        if reply.status == 403:
            self.refused.append(f"{ask.method} {ask.path}: {reply.body.decode()}")
        return reply

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(ask)

    async def close(self) -> None:
        await self._inner.close()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    made = Autoscaled(tmp_path / "unused")
    made.server = ApiServer(Config(MemoryStore(), tmp_path / "server"))
    made.admin = local_client(made.server)
    await made.server.start()
    for manifest in manifests():
        if manifest["kind"] in RBAC:
            namespace = manifest["metadata"].get("namespace", "")
            await made.admin.create(kind_named(manifest["kind"]), manifest, namespace)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await made.admin.create(kind_named("ServiceAccount"), account, "default")
    await made.node()
    yield made
    await made.server.stop()


async def as_account(cluster: Autoscaled, name: str) -> Watched:
    asked: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    kind = kind_named("ServiceAccount")
    token = await cluster.admin.create(kind, asked, "kube-system", name, "token")
    tls = ssl.create_default_context(cadata=cluster.server.pki.ca.decode())
    return Watched(HttpTransport(cluster.server.url, tls=tls, token=token["status"]["token"]))


async def test_the_components_run_with_no_more_than_their_service_accounts(cluster: Autoscaled) -> None:
    transports = [
        await as_account(cluster, name) for name in ("vpa-recommender", "vpa-updater", "vpa-admission-controller")
    ]
    recommending, updating, admitting = (Client(transport) for transport in transports)
    pods = await cluster.deployment("web", 2)
    recommender = Recommender(recommending, RecommenderConfig(address="127.0.0.1:0"))
    updater = Updater(updating, UpdaterConfig(address="127.0.0.1:0", use_admission_controller_status=True))
    webhook = AdmissionWebhook(
        admitting,
        AdmissionConfig(port=0, host="127.0.0.1", address="", register_by_url=True, webhook_address="127.0.0.1"),
    )
    parts: list[Any] = [webhook, recommender, updater]
    for part in parts:
        await part.start()
    try:
        await webhook.upkeep()
        await webhook._renew_once()
        made = await cluster.vpa("web", "web", updatePolicy={"updateMode": "InPlaceOrRecreate"})
        await cluster.recommend("web", {"cpu": "400m", "memory": "200Mi"}, lowerBound={"cpu": "300m"})
        while not (updater.caches.vpas.get("default", "web") or {}).get("status"):
            await updater.clock.sleep(0.01)
        await updater.one_pass()
        await updater.events.flush()
        await recommender.one_pass()
        await recommender.checkpoints.write(recommender.cluster, 1.7e9, 5.0)
        await recommender.events.flush()
        with pytest.raises(ApiError) as forbidden:
            await recommending.list(kind_named("Secret"), "kube-system")
        assert forbidden.value.code == 403
        transports[0].refused.pop()
    finally:
        for part in parts:
            await part.stop()
        for transport in transports:
            await transport.close()
    for transport in transports:
        # No server provides the metrics API here; every other request must be allowed.
        assert [entry for entry in transport.refused if "metrics.k8s.io" not in entry] == []
    assert made["spec"]["targetRef"]
    sizes = [(await cluster.admin.get(kind_named("Pod"), "default", pod))["spec"]["containers"][0] for pod in pods]
    assert "400m" in [size["resources"]["requests"]["cpu"] for size in sizes]
    status = (await cluster.admin.get(VPA, "default", "web"))["status"]
    assert {condition["type"] for condition in status["conditions"]} >= {"RecommendationProvided"}
    assert await cluster.admin.list(VPA_CHECKPOINT, "default")


@pytest.mark.parametrize("verb", ["get", "list"])
@pytest.mark.parametrize("name", ["vpa-recommender", "vpa-updater"])
async def test_usage_may_be_read_pod_by_pod_and_as_a_whole(cluster: Autoscaled, name: str, verb: str) -> None:
    asked = {"group": "metrics.k8s.io", "version": "v1beta1", "resource": "pods", "verb": verb}
    spec = {"user": f"system:serviceaccount:kube-system:{name}", "resourceAttributes": asked}
    kind = kind_named("SubjectAccessReview")
    answer = await cluster.admin.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec})
    assert answer["status"]["allowed"]


def test_the_deployments_command_lines_can_be_read() -> None:
    read: dict[str, Any] = {"recommender": recommender_config, "updater": updater_config, "admission": admission_config}
    seen = 0
    for manifest in manifests():
        if manifest["kind"] == "Deployment":
            arguments = manifest["spec"]["template"]["spec"]["containers"][0]["args"]
            assert arguments[0] == "vpa"
            read[arguments[1]](arguments[2:])
            seen += 1
    assert seen == 3


def test_the_definitions_are_those_the_server_brings() -> None:
    names = {manifest["metadata"]["name"] for manifest in manifests() if manifest["kind"] == "CustomResourceDefinition"}
    assert names == {
        "verticalpodautoscalers.autoscaling.k8s.io",
        "verticalpodautoscalercheckpoints.autoscaling.k8s.io",
    }
