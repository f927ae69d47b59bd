"""Autoscalers in the form of the design document: pods by label selector, served as v1alpha1 as well."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.cluster.nodes import local_client

from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.representation import wire
from podfit.cli.checks import cluster as checks
from podfit.cli.explaining.autoscalers import explain_vpa
from podfit.kit.clock import FakeClock, rfc3339
from podfit.store.disk.sqlite import SqliteStore
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.loop import AdmissionWebhook
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

ALPHA = "/apis/autoscaling.k8s.io/v1alpha1/namespaces/default/verticalpodautoscalers"
SMALL = {"requests": {"cpu": "100m", "memory": "100Mi"}}
DEPLOY = Path(__file__).parents[2] / "deploy" / "vpa"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


def design(name: str = "tier", mode: str = "Auto", **spec: Any) -> dict[str, Any]:
    """An autoscaler in the design document's form."""
    chosen = {"selector": {"matchLabels": {"tier": "front"}}, "updatePolicy": {"mode": mode}}
    return {
        "apiVersion": "autoscaling.k8s.io/v1alpha1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {**chosen, **spec},
    }


async def recommended(cluster: Autoscaled, passes: int = 3) -> None:
    recommender = Recommender(cluster.client, RecommenderConfig(address=""), None, cluster.clock)
    await recommender.start()
    for _ in range(passes):
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await recommender.one_pass()
    await recommender.stop()


async def front(cluster: Autoscaled) -> list[str]:
    """Pods of two Deployments and one pod without a controller, all of one tier."""
    names = [*await cluster.deployment("web", 2), *await cluster.deployment("shop", 2)]
    for name in names:
        await cluster.admin.patch(POD, "default", name, {"metadata": {"labels": {"tier": "front"}}})
    await cluster.pod("naked", labels={"tier": "front"}, resources=SMALL)
    for name in (*names, "naked"):
        cluster.use(name, "400m", "300000000")
    return names


async def test_one_selector_covers_several_deployments_and_a_pod_without_a_controller(cluster: Autoscaled) -> None:
    names = await front(cluster)
    await cluster.admin.raw("POST", ALPHA, body=design(mode="InPlaceOrRecreate"))
    await recommended(cluster)
    shown = await cluster.admin.raw("GET", f"{ALPHA}/tier")
    [entry] = shown["status"]["recommendation"]["containerRecommendations"]
    assert entry["name"] == "main" and entry["target"]["requests"]["cpu"]
    assert entry["minRecommended"]["requests"] and entry["maxRecommended"]["requests"]
    updater = Updater(cluster.client, UpdaterConfig(address="", in_place_skip_disruption_budget=True), cluster.clock)
    await updater.start()
    await updater.one_pass()
    await updater.stop()
    for name in (*names, "naked"):
        pod = await cluster.admin.get(POD, "default", name)
        assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == entry["target"]["requests"]["cpu"], name


async def test_a_pod_without_a_controller_is_never_evicted(cluster: Autoscaled) -> None:
    await cluster.pod("naked", labels={"tier": "front"}, resources=SMALL)
    await cluster.pod("bare", labels={"tier": "front"}, resources=SMALL)
    await cluster.admin.raw("POST", ALPHA, body=design(mode="Auto"))
    await cluster.recommend("tier", {"cpu": "2"}, lowerBound={"cpu": "1"}, upperBound={"cpu": "3"})
    config = UpdaterConfig(address="", min_replicas=1, use_admission_controller_status=False)
    updater = Updater(cluster.client, config, cluster.clock)
    await updater.start()
    await updater.one_pass()
    reported = updater.skip_reasons.of(("default", "tier"))
    await updater.stop()
    assert {pod["metadata"]["name"] for pod in (await cluster.admin.list(POD, "default"))["items"]} == {"naked", "bare"}
    assert reported is not None and reported["pods"]["naked"]["reason"] == "NotRecreated"


async def test_new_pods_of_any_creator_get_the_size(cluster: Autoscaled) -> None:
    await cluster.admin.raw("POST", ALPHA, body=design(mode="Initial"))
    await cluster.recommend("tier", {"cpu": "2"})
    config = AdmissionConfig(address="", host="127.0.0.1", port=0, register_by_url=True, webhook_address="127.0.0.1")
    webhook = AdmissionWebhook(cluster.client, config)
    await webhook.start()
    await webhook.upkeep()
    try:
        made = await cluster.pod("naked", labels={"tier": "front"}, resources=SMALL, node="")
        other = await cluster.pod("other", labels={"tier": "back"}, resources=SMALL, node="")
    finally:
        await webhook.stop()
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    assert other["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "100m"


async def test_the_status_says_when_and_what_in_both_versions(cluster: Autoscaled) -> None:
    await front(cluster)
    await cluster.admin.raw("POST", ALPHA, body=design())
    await recommended(cluster)
    for shown in (await cluster.admin.get(VPA, "default", "tier"), await cluster.admin.raw("GET", f"{ALPHA}/tier")):
        assert shown["status"]["statusMessage"].startswith("Resources are recommended for 1 container.")
        assert "2" <= shown["status"]["lastUpdateTime"] <= rfc3339(cluster.clock.now())


async def test_a_status_written_as_v1alpha1_keeps_its_limits(cluster: Autoscaled) -> None:
    made = await cluster.admin.raw("POST", ALPHA, body=design())
    entry = {
        "name": "main",
        "target": {"requests": {"cpu": "200m"}, "limits": {"cpu": "1"}},
        "minRecommended": {"limits": {"memory": "1Gi"}},
        "maxRecommended": {"requests": {"cpu": "2"}},
    }
    made["status"] = {"recommendation": {"containerRecommendations": [entry]}}
    await cluster.admin.raw("PUT", f"{ALPHA}/tier/status", body=made)
    shown = await cluster.admin.raw("GET", f"{ALPHA}/tier")
    assert shown["status"]["recommendation"]["containerRecommendations"] == [entry]
    [row] = (await cluster.admin.get(VPA, "default", "tier"))["status"]["recommendation"]["containerRecommendations"]
    assert (row["target"], row["lowerBound"], row["upperBound"]) == ({"cpu": "200m"}, {}, {"cpu": "2"})
    # The next recommendation has no limits, and none of the old ones.
    status = {"recommendation": {"containerRecommendations": [{"containerName": "main", "target": {"cpu": "300m"}}]}}
    await cluster.admin.patch(VPA, "default", "tier", {"status": status}, "status")
    shown = await cluster.admin.raw("GET", f"{ALPHA}/tier")
    [row] = shown["status"]["recommendation"]["containerRecommendations"]
    assert row == {"name": "main", "target": {"requests": {"cpu": "300m"}}}


async def test_an_autoscaler_without_pods_reports_it(cluster: Autoscaled) -> None:
    await cluster.admin.raw("POST", ALPHA, body=design())
    await recommended(cluster, 1)
    status = (await cluster.admin.get(VPA, "default", "tier"))["status"]
    assert status["statusMessage"] == "No pods match this VPA object."


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"selector": {}, "targetRef": {"kind": "Deployment", "name": "web"}},
        {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
    ],
)
async def test_exactly_one_of_target_and_selector_is_taken(cluster: Autoscaled, spec: dict[str, Any]) -> None:
    for version in ("v1", "v1alpha1"):
        body = {**design(), "apiVersion": f"autoscaling.k8s.io/{version}", "spec": spec}
        with pytest.raises(ApiError) as refused:
            await cluster.admin.raw("POST", ALPHA.replace("v1alpha1", version), body=body)
        assert refused.value.code == 422


async def test_a_write_by_a_v1_client_preserves_the_limits_of_v1alpha1(cluster: Autoscaled) -> None:
    least = {"requests": {"cpu": "10m"}, "limits": {"cpu": "20m"}}
    policy = {"containerPolicies": [{"name": "*", "mode": "On", "minAllowed": least}]}
    await cluster.admin.raw("POST", ALPHA, body=design(resourcePolicy=policy))
    seen = await cluster.admin.get(VPA, "default", "tier")
    [entry] = seen["spec"]["resourcePolicy"]["containerPolicies"]
    assert entry == {"containerName": "*", "mode": "Auto", "minAllowed": {"cpu": "10m"}}
    entry["minAllowed"]["cpu"] = "15m"
    await cluster.admin.update(VPA, seen)
    shown = await cluster.admin.raw("GET", f"{ALPHA}/tier")
    [entry] = shown["spec"]["resourcePolicy"]["containerPolicies"]
    assert entry["minAllowed"] == {"requests": {"cpu": "15m"}, "limits": {"cpu": "20m"}}
    assert "annotations" not in shown["metadata"]


async def test_the_resource_of_a_horizontal_autoscaler_is_not_changed(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 1)
    hpas = kind_named("HorizontalPodAutoscaler")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3}
    body = {"apiVersion": hpas.api_version, "kind": hpas.kind, "metadata": {"name": "web"}, "spec": spec}
    await cluster.admin.create(hpas, body, "default")
    cluster.use("web-1-0", "400m", "300000000")
    await cluster.admin.raw("POST", ALPHA, body=design(selector={"matchLabels": {"app": "web"}}))
    await recommended(cluster)
    conditions = (await cluster.admin.get(VPA, "default", "tier"))["status"]["conditions"]
    assert "ResourceScaledHorizontally" in {
        condition["type"] for condition in conditions if condition["status"] == "True"
    }


async def test_explain_names_the_selector(cluster: Autoscaled) -> None:
    await front(cluster)
    await cluster.admin.raw("POST", ALPHA, body=design())
    lines, _ = await explain_vpa(cluster.admin, await cluster.admin.get(VPA, "default", "tier"))
    assert lines[0] == "vpa/tier scales the pods with tier=front (5 pods), mode Auto:"


async def test_the_webhook_converts_for_other_api_servers(cluster: Autoscaled) -> None:
    """The definition of deploy/vpa converts by webhook; the webhook enters its address and certificate itself."""
    crds, name = kind_named("CustomResourceDefinition"), "verticalpodautoscalers.autoscaling.k8s.io"
    wanted = yaml.safe_load((DEPLOY / "crds" / "verticalpodautoscalers.yaml").read_text())["spec"]
    found = await cluster.admin.get(crds, "", name)
    await cluster.admin.update(crds, {**found, "spec": wanted})
    config = AdmissionConfig(address="", host="127.0.0.1", port=0, register_by_url=True, webhook_address="127.0.0.1")
    webhook = AdmissionWebhook(cluster.client, config)
    await webhook.start()
    await webhook.upkeep()
    try:
        registered = (await cluster.admin.get(crds, "", name))["spec"]["conversion"]["webhook"]["clientConfig"]
        assert registered["url"].endswith(f":{webhook.port}/convert") and registered["caBundle"]
        await cluster.admin.raw("POST", ALPHA, body=design(mode="Initial"))
        seen = await cluster.admin.get(VPA, "default", "tier")
        assert seen["spec"]["updatePolicy"] == {"updateMode": "Initial"}
        shown = await cluster.admin.raw("GET", f"{ALPHA}/tier")
        assert shown["spec"] == design(mode="Initial")["spec"]
        async with aiohttp.ClientSession() as session:
            async with session.post(registered["url"], json={"request": {"uid": "u"}}, ssl=False) as answer:
                response = (await answer.json())["response"]
        assert response["uid"] == "u" and response["result"]["status"] == "Failure"
    finally:
        await webhook.stop()


async def test_the_webhook_checks_v1alpha1_objects_under_their_own_names(cluster: Autoscaled) -> None:
    config = AdmissionConfig(address="", host="127.0.0.1", port=0, register_by_url=True, webhook_address="127.0.0.1")
    webhook = AdmissionWebhook(cluster.client, config)
    await webhook.start()
    await webhook.upkeep()
    try:
        with pytest.raises(ApiError, match=r"spec.resourcePolicy.containerPolicies\[0\].name: Required value"):
            policy = {"containerPolicies": [{"mode": "Off"}]}
            await cluster.admin.raw("POST", ALPHA, body=design(resourcePolicy=policy))
        made = await cluster.admin.raw("POST", ALPHA, body={**design(), "spec": {"selector": {}}})
        assert made["spec"]["updatePolicy"] == {"mode": "Recreate"}
    finally:
        await webhook.stop()


async def test_applying_an_autoscaler_warns_of_pods_without_a_controller(cluster: Autoscaled) -> None:
    await cluster.pod("naked", labels={"tier": "front"}, resources=SMALL)
    webhook = AdmissionWebhook(cluster.client, AdmissionConfig(address=""))
    await webhook.caches.start()
    resource = {"group": "autoscaling.k8s.io", "version": "v1alpha1", "resource": "verticalpodautoscalers"}
    found = []
    for mode in ("Initial", "InPlaceOrRecreate", "Recreate"):
        request = {"uid": "u", "resource": resource, "namespace": "default", "object": design(mode=mode)}
        _, verdict = await webhook.reviews.admit({"request": request})
        found.append(verdict.warnings)
    await webhook.stop()
    [reported] = found.pop()
    assert found == [(), ()] and reported.startswith("no controller recreates pods naked: ")


async def test_doctor_warns_of_pods_without_a_controller(cluster: Autoscaled) -> None:
    await cluster.admin.raw("POST", ALPHA, body=design())
    assert (await checks._autoscalers(cluster.admin)).level == "ok"
    await cluster.pod("naked", labels={"tier": "front"}, resources=SMALL)
    found = await checks._autoscalers(cluster.admin)
    assert found.level == "warn" and "vpa/tier in default" in found.found and "naked" in found.found


async def test_a_cluster_of_an_older_version_gets_the_new_version_of_the_definition(tmp_path: Path) -> None:
    crds, name = kind_named("CustomResourceDefinition"), "verticalpodautoscalers.autoscaling.k8s.io"
    async with _started(tmp_path) as first:
        record = first.core.writer.objects.record(crds, "", name)
        assert record is not None
        old = wire.object_of(record)
        old["spec"]["versions"] = [version for version in old["spec"]["versions"] if version["name"] != "v1alpha1"]
        await first.core.writer.objects.put(crds, record.key, old, record.modified)
    for _ in range(2):
        async with _started(tmp_path) as later:
            assert (await local_client(later).raw("GET", ALPHA))["items"] == []
            found = await local_client(later).get(crds, "", name)
            assert found["metadata"]["generation"] == 2, "a second start writes nothing"


async def test_a_definition_that_was_edited_is_not_overwritten(tmp_path: Path) -> None:
    crds, name = kind_named("CustomResourceDefinition"), "verticalpodautoscalers.autoscaling.k8s.io"
    async with _started(tmp_path) as first:
        found = await local_client(first).get(crds, "", name)
        del found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
        changed = (await local_client(first).update(crds, found))["spec"]
    async with _started(tmp_path) as later:
        assert (await local_client(later).get(crds, "", name))["spec"] == changed


@asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer(Config(SqliteStore(folder / "podfit.db"), folder, tls=False))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
