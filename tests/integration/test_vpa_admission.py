"""The admission webhook behind podfit's API server, over HTTPS with certificates of its own."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import REPLICA_SET, Autoscaled, autoscaled
from tests.support.cluster.expect import all_become, becomes

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import LEASE, NAMESPACE, POD, VPA, kind_named
from podfit.api.status import ApiError
from podfit.kit.clock import FakeClock
from podfit.vpa.admission.certificates import SECRET, made
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.loop import AdmissionWebhook
from podfit.vpa.observe.live_recommendations import Ask
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

CONFIG = AdmissionConfig(
    port=0, host="127.0.0.1", address="", register_by_url=True, webhook_address="127.0.0.1", namespace="kube-system"
)
MUTATING = kind_named("MutatingWebhookConfiguration")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server") as made_cluster:
        yield made_cluster


@asynccontextmanager
async def admitting(
    cluster: Autoscaled, config: AdmissionConfig = CONFIG, ask: Ask | None = None
) -> AsyncIterator[AdmissionWebhook]:
    webhook = AdmissionWebhook(cluster.client, config, cluster.clock, ask=ask)
    await webhook.start()
    try:
        await webhook.upkeep()
        yield webhook
    finally:
        await webhook.stop()


@asynccontextmanager
async def updating(cluster: Autoscaled) -> AsyncIterator[Updater]:
    """An updater whose passes the test runs."""
    updater = Updater(cluster.client, UpdaterConfig(address=""), cluster.clock)
    await updater.start()
    try:
        yield updater
    finally:
        await updater.stop()


def is_free(pod: Any) -> bool:
    return pod is not None and not pod["spec"].get("schedulingGates")


def reasons(events: list[Any]) -> set[str]:
    return {event["reason"] for event in events}


async def owner(cluster: Autoscaled, name: str = "web-1") -> Any:
    found = await cluster.admin.get(REPLICA_SET, "default", name)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": name,
        "uid": found["metadata"]["uid"],
        "controller": True,
    }


async def create(cluster: Autoscaled, name: str = "new", annotations: Mapping[str, str] | None = None) -> Any:
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "200m"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "web"},
            "ownerReferences": [await owner(cluster)],
            "annotations": dict(annotations or {}),
        },
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
    }
    return await cluster.admin.create(POD, pod, "default")


async def test_new_pods_get_the_recommended_resources(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "500m", "memory": "300Mi"})
    async with admitting(cluster):
        pod = await create(cluster)
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": "300Mi"}
    assert resources["limits"]["cpu"] == "1"
    assert pod["metadata"]["annotations"]["vpaObservedContainers"] == "main"
    assert pod["metadata"]["annotations"]["vpaUpdates"].startswith("Pod resources updated by web: container 0: ")


@pytest.mark.parametrize("values", ["RequestsAndLimits", "RequestsWithoutLimits"])
async def test_every_pod_of_a_template_gets_what_the_first_one_got(cluster: Autoscaled, values: str) -> None:
    await cluster.deployment("web", 0)
    policy = {"containerName": "*", "controlledValues": values, "maxAllowed": {"cpu": "400m"}}
    await cluster.vpa("web", "web", resourcePolicy={"containerPolicies": [policy]})
    await cluster.recommend("web", {"cpu": "500m", "memory": "300Mi"})
    async with admitting(cluster) as webhook:
        pods = [await create(cluster, name) for name in ("first", "second", "third")]
        before = webhook.caches.vpas.get("default", "web")
        await cluster.recommend("web", {"cpu": "300m", "memory": "300Mi"})
        async with asyncio.timeout(20):
            while webhook.caches.vpas.get("default", "web") is before:
                await asyncio.sleep(0.01)
        later = await create(cluster, "later")
    limits = {"limits": {"cpu": "800m"}} if values == "RequestsAndLimits" else {}
    for pod in pods:
        assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "400m", "memory": "300Mi"}, **limits}
        assert pod["metadata"]["annotations"]["vpaUpdates"] == pods[0]["metadata"]["annotations"]["vpaUpdates"]
    assert later["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "300m"


async def test_a_reachable_recommender_takes_precedence(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "500m", "memory": "300Mi"})

    async def fresh(pod: Any, vpa: Any) -> Mapping[str, Any]:
        assert pod["metadata"]["namespace"] == "default"
        return {"containerRecommendations": [{"containerName": "main", "target": {"cpu": "700m", "memory": "300Mi"}}]}

    async with admitting(cluster, ask=fresh):
        pod = await create(cluster)
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "700m"


async def test_what_is_scaled_horizontally_stays_out_of_fresh_answers_too(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "500m", "memory": "300Mi"})
    kind = kind_named("HorizontalPodAutoscaler")
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    hpa = {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": reference, "maxReplicas": 3}}
    await cluster.admin.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **hpa}, "default")

    async def fresh(pod: Any, vpa: Any) -> Mapping[str, Any]:
        assert vpa["metadata"]["name"] == "web"
        return {"containerRecommendations": [{"containerName": "main", "target": {"cpu": "700m", "memory": "400Mi"}}]}

    async with admitting(cluster, ask=fresh):
        pod = await create(cluster)
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "400Mi"}


async def test_a_recommender_that_fails_is_not_missed(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "500m", "memory": "300Mi"})
    asked = []

    async def broken(pod: Any, vpa: Any) -> Mapping[str, Any]:
        asked.append(pod)
        raise RuntimeError("down")

    async with admitting(cluster, ask=broken):
        first = await create(cluster, "first")
        second = await create(cluster, "second")
    for pod in (first, second):
        assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"
    assert len(asked) == 1, "after a failure it is left in peace for a while"


async def test_without_a_recommendation_pods_pass_unchanged(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    async with admitting(cluster):
        pod = await create(cluster)
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "100Mi"}
    assert "vpaUpdates" not in (pod["metadata"].get("annotations") or {})


async def test_pods_start_while_the_webhook_is_away(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "500m"})
    async with admitting(cluster):
        pass
    pod = await create(cluster)
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "100m"


async def test_a_new_pod_is_squeezed_to_what_nodes_have_left(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "4", "memory": "300Mi"}, lowerBound={"cpu": "1", "memory": "200Mi"})
    await cluster.pod("neighbour", resources={"requests": {"cpu": "6"}})
    async with admitting(cluster):
        pod = await create(cluster)
    resources = pod["spec"]["containers"][0]["resources"]
    assert 1990 <= Quantity.parse(resources["requests"]["cpu"]).milli <= 2000, "8 CPUs, of which 6 are taken"
    request, limit = (Quantity.parse(resources[kind]["cpu"]).milli for kind in ("requests", "limits"))
    assert limit == 2 * request
    assert resources["requests"]["memory"] == "300Mi"
    assert "of cpu instead of 4000m" in pod["metadata"]["annotations"]["podfit.dev/fitted"]


async def test_new_pods_do_not_count_on_the_same_room(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "5", "memory": "300Mi"}, lowerBound={"cpu": "1", "memory": "200Mi"})
    async with admitting(cluster):
        pods = [await create(cluster, name) for name in ("first", "second")]
    sizes = [Quantity.parse(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]).milli for pod in pods]
    assert sizes[0] == 5000 and 2990 <= sizes[1] <= 3000


async def test_a_new_pod_keeps_its_target_when_not_even_the_minimum_fits(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "4"}, lowerBound={"cpu": "3"})
    await cluster.pod("neighbour", resources={"requests": {"cpu": "6"}})
    async with admitting(cluster):
        pod = await create(cluster)
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "4"


async def test_a_target_beyond_every_node_is_capped_at_the_largest(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web", updatePolicy={"updateMode": "Initial"})
    await cluster.recommend("web", {"cpu": "23400m", "memory": "300Mi"}, lowerBound={"cpu": "20", "memory": "1Mi"})
    updater = Updater(cluster.client, UpdaterConfig(address=""), cluster.clock)
    await updater.start()
    try:
        async with admitting(cluster):
            pod = await create(cluster)
        await updater.one_pass()
        reported = await cluster.admin.get(VPA, "default", "web")
    finally:
        await updater.stop()
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "8"
    assert "the most that the largest node, n1, can hold" in pod["metadata"]["annotations"]["podfit.dev/fitted"]
    [condition] = [known for known in reported["status"]["conditions"] if known["type"] == "TargetExceedsNodes"]
    assert condition["status"] == "True" and condition["reason"] == "LargestNodeTooSmall"
    assert "23400m of cpu, of which node n1 can hold 8000m" in condition["message"]


async def test_the_condition_goes_when_a_node_is_large_enough(cluster: Autoscaled) -> None:
    await cluster.vpa("web", "web", updatePolicy={"updateMode": "Off"})
    await cluster.recommend("web", {"cpu": "23400m", "memory": "300Mi"})
    updater = Updater(cluster.client, UpdaterConfig(address=""), cluster.clock)
    await updater.start()
    try:
        await updater.one_pass()
        assert "TargetExceedsNodes" in str(await cluster.admin.get(VPA, "default", "web"))
        await cluster.node("large", cpu="32")
        async with asyncio.timeout(20):
            while "TargetExceedsNodes" in str(await cluster.admin.get(VPA, "default", "web")):
                await cluster.clock.sleep(0.01)
                await updater.one_pass()
    finally:
        await updater.stop()
    kept = (await cluster.admin.get(VPA, "default", "web"))["status"]
    assert [condition["type"] for condition in kept["conditions"]] == ["RecommendationProvided"]


@pytest.mark.parametrize(("lower", "cpu"), [("300m", "500m"), ("700m", "100m")])
async def test_a_new_pod_is_not_made_too_large_for_the_quota(cluster: Autoscaled, lower: str, cpu: str) -> None:
    kind, hard = kind_named("ResourceQuota"), {"requests.cpu": "500m"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "900m", "memory": "100Mi"}, lowerBound={"cpu": lower, "memory": "100Mi"})
    await cluster.admin.create(kind, quota, "default")
    status = {"hard": hard, "used": {"requests.cpu": "0"}}
    await cluster.admin.patch(kind, "default", "q", {"status": status}, "status")
    async with admitting(cluster):
        pod = await create(cluster)
    got = Quantity.parse(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]).milli
    assert Quantity.parse(cpu).milli - 2 <= got <= Quantity.parse(cpu).milli
    assert "podfit.dev/fitted" in pod["metadata"]["annotations"]


async def test_without_fitting_new_pods_get_their_target_whatever_the_room(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "23400m"}, lowerBound={"cpu": "1"})
    async with admitting(cluster, replace(CONFIG, fit_to_room=False)):
        pod = await create(cluster)
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "23400m"


@pytest.mark.parametrize("brake", ["panic", "namespace", "vpa"])
async def test_new_pods_keep_their_own_size_while_changes_are_frozen(cluster: Autoscaled, brake: str) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "500m", "memory": "300Mi"})
    note: Any = {"metadata": {"annotations": {"podfit.dev/freeze": "true"}}}
    panic = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "podfit-panic"}}
    if brake == "panic":
        await cluster.admin.create(kind_named("ConfigMap"), panic, "kube-system")
    elif brake == "namespace":
        await cluster.admin.patch(NAMESPACE, "", "default", note)
    else:
        await cluster.admin.patch(VPA, "default", "web", note)
    async with admitting(cluster) as webhook:
        frozen = await create(cluster, "frozen")
        assert frozen["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "100m"
        assert "vpaUpdates" not in (frozen["metadata"].get("annotations") or {})
        note["metadata"]["annotations"]["podfit.dev/freeze"] = None
        if brake == "panic":
            await cluster.admin.delete(kind_named("ConfigMap"), "kube-system", "podfit-panic")
        elif brake == "namespace":
            await cluster.admin.patch(NAMESPACE, "", "default", note)
        else:
            await cluster.admin.patch(VPA, "default", "web", note)
        async with asyncio.timeout(20):
            while (seen := webhook.caches.vpas.get("default", "web")) is None or webhook.stops.frozen(seen) is not None:
                await cluster.clock.sleep(0.01)
        freed = await create(cluster, "freed")
        assert freed["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"


async def test_owners_younger_than_the_cache_are_looked_up(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "500m"})
    async with admitting(cluster) as webhook:
        for cache in (webhook.caches.workloads["ReplicaSet"], webhook.caches.workloads["Deployment"]):
            cache._objects.clear()
        pod = await create(cluster)
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"


async def gadget(cluster: Autoscaled) -> Any:
    """An object of a kind that is not known beforehand, with a scale."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"scale": {**scale, "labelSelectorPath": ".status.selector"}},
    }
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    crds = kind_named("CustomResourceDefinition")
    await cluster.admin.create(crds, {**definition, "metadata": {"name": "gadgets.example.com"}})
    while True:
        found = await cluster.admin.get(crds, "", "gadgets.example.com")
        if any(condition["type"] == "Established" for condition in (found.get("status") or {}).get("conditions") or ()):
            break
        await cluster.clock.sleep(0.02)
    body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    status = {"replicas": 1, "selector": "app=web"}
    path = "/apis/example.com/v1/namespaces/default/gadgets"
    return await cluster.admin.raw("POST", path, body={**body, "spec": {"replicas": 1}, "status": status})


async def test_the_first_pod_of_an_unknown_kind_is_sized(cluster: Autoscaled) -> None:
    await cluster.deployment("other", 1)
    made_gadget = await gadget(cluster)
    async with admitting(cluster) as webhook:
        target = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "g"}
        await cluster.vpa("gadget", "unused", targetRef=target)
        await cluster.recommend("gadget", {"cpu": "500m", "memory": "300Mi"})
        while not webhook.index.vpas or not next(iter(webhook.index.vpas.values()))[0].get("status"):
            await cluster.clock.sleep(0.01)
        reference = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "g", "controller": True}
        reference["uid"] = made_gadget["metadata"]["uid"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "new", "labels": {"app": "web"}, "ownerReferences": [reference]},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        }
        created = await cluster.admin.create(POD, pod, "default")
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "300Mi"}


async def test_autoscalers_are_checked_with_upstreams_words(cluster: Autoscaled) -> None:
    async with admitting(cluster):
        made_vpa = await cluster.vpa("good", "web")
        assert made_vpa["spec"]["updatePolicy"] == {"updateMode": "Recreate"}
        with pytest.raises(ApiError) as refused:
            await cluster.vpa("bad", "web", updatePolicy={"updateMode": "Recreate", "minReplicas": -1})
    assert refused.value.code == 422
    assert "minReplicas has to be positive" in refused.value.message


async def test_an_autoscaler_without_a_spec_is_refused_for_that(cluster: Autoscaled) -> None:
    async with admitting(cluster):
        specs: list[dict[str, Any]] = [{}, {"spec": None}, {"spec": {}}]
        for spec in specs:
            body = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": "v"}, **spec}
            with pytest.raises(ApiError) as refused:
                await cluster.admin.create(VPA, body, "default")
            assert refused.value.code == 422, spec
            assert "spec" in refused.value.message and "Required value" in refused.value.message, spec


async def test_a_deleted_webhook_configuration_is_recreated_and_an_intact_one_left_unchanged(
    cluster: Autoscaled,
) -> None:
    async with admitting(cluster) as webhook:
        before = await cluster.admin.get(MUTATING, "", "vpa-webhook-config")
        await webhook.upkeep()
        same = await cluster.admin.get(MUTATING, "", "vpa-webhook-config")
        assert same["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert before["webhooks"][0]["name"] == "vpa.k8s.io"
        assert before["webhooks"][0]["failurePolicy"] == "Ignore"
        await cluster.admin.delete(MUTATING, "", "vpa-webhook-config")
        await webhook.upkeep()
        assert await cluster.admin.find(MUTATING, "", "vpa-webhook-config")


async def test_certificates_are_renewed_before_they_expire_under_the_same_authority(tmp_path: Path) -> None:
    clock = FakeClock()
    async with autoscaled(tmp_path / "server", clock) as cluster:
        # An hour instead of a month: the lease is renewed every ten seconds of it.
        quick = replace(CONFIG, register_webhook=False, certificate_lifetime=3600.0)
        webhook = AdmissionWebhook(cluster.client, quick, clock)
        await webhook.start()
        first = await cluster.admin.get(SECRET, "kube-system", "vpa-tls-certs")
        await clock.advance(3000)
        await webhook.upkeep()
        second = await cluster.admin.get(SECRET, "kube-system", "vpa-tls-certs")
        await webhook.stop()
    assert first["data"]["caCert.pem"] == second["data"]["caCert.pem"]
    assert first["data"]["serverCert.pem"] != second["data"]["serverCert.pem"]


def test_a_renewed_authority_leaves_the_old_one_in_the_bundle() -> None:
    old = made(["a"], 0.0, 86400.0)
    new = made(["a"], 3300 * 86400.0, 86400.0, old)
    assert new.ca.endswith(old.ca) and new.ca != old.ca


async def test_the_lease_shows_that_the_webhook_is_alive(cluster: Autoscaled) -> None:
    async with admitting(cluster) as webhook:
        await webhook._renew_once()
        lease = await cluster.admin.get(LEASE, "kube-system", "vpa-admission-controller")
        assert lease["spec"]["renewTime"]


@pytest.mark.parametrize(
    ("recommended", "got"),
    [
        ({"cpu": "500m", "memory": "300Mi"}, {"cpu": "500m", "memory": "300Mi"}),
        (None, {"cpu": "250m", "memory": "100Mi"}),
    ],
)
async def test_a_pod_that_requires_an_autoscaler_is_held_until_there_is_one(
    cluster: Autoscaled, recommended: dict[str, str] | None, got: dict[str, str]
) -> None:
    await cluster.deployment("web", 0)
    async with admitting(cluster):
        pod = await create(cluster, annotations={"podfit.dev/requires-vpa": "true"})
        assert pod["spec"]["schedulingGates"] == [{"name": "podfit.dev/requires-vpa"}]
        async with updating(cluster) as updater:
            await updater.one_pass()
            await updater.one_pass()
            held = await cluster.admin.get(POD, "default", "new")
            assert held["spec"]["schedulingGates"]
            await updater.events.flush()
        policy = {"containerName": "*", "minAllowed": {"cpu": "250m"}}
        await cluster.vpa("web", "web", resourcePolicy={"containerPolicies": [policy]})
        if recommended is not None:
            await cluster.recommend("web", recommended)
        async with updating(cluster):
            freed = await becomes(cluster.admin, POD, "default", "new", is_free)
    assert freed is not None and freed["spec"]["containers"][0]["resources"]["requests"] == got
    events = (await cluster.admin.list(kind_named("Event"), "default"))["items"]
    reported = [event for event in events if event["reason"] == "WaitingForVPA"]
    assert [event["involvedObject"]["name"] for event in reported] == ["new"] and reported[0].get("count", 1) == 1
    assert "no VerticalPodAutoscaler in namespace default has Deployment web as its target" in reported[0]["message"]


async def test_a_pod_that_requires_an_autoscaler_starts_at_its_own_size_within_policy(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    policy = {"containerName": "*", "minAllowed": {"cpu": "250m"}, "maxAllowed": {"memory": "50Mi"}}
    await cluster.vpa("web", "web", resourcePolicy={"containerPolicies": [policy]})
    async with admitting(cluster):
        pod = await create(cluster, annotations={"podfit.dev/requires-vpa": "true"})
        other = await create(cluster, "other")
    assert not pod["spec"].get("schedulingGates")
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m", "memory": "50Mi"}
    assert other["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "100Mi"}


async def test_a_held_pod_starts_as_soon_as_there_is_an_autoscaler(cluster: Autoscaled) -> None:
    """Not with the updater's next pass: no updater runs here."""
    await cluster.deployment("web", 0)
    async with admitting(cluster), updating(cluster) as updater:
        await create(cluster, annotations={"podfit.dev/requires-vpa": "true"})
        await all_become(cluster.admin, kind_named("Event"), "default", lambda found: "WaitingForVPA" in reasons(found))
        await cluster.vpa("web", "web")
        freed = await becomes(cluster.admin, POD, "default", "new", is_free)
        assert freed is not None and updater.passes == 0


async def test_a_held_pod_starts_as_soon_as_a_freeze_ends(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    panic = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "podfit-panic"}}
    await cluster.admin.create(kind_named("ConfigMap"), panic, "kube-system")
    async with admitting(cluster), updating(cluster) as updater:
        await create(cluster, annotations={"podfit.dev/requires-vpa": "true"})
        await all_become(cluster.admin, kind_named("Event"), "default", lambda found: "WaitingForVPA" in reasons(found))
        await cluster.admin.delete(kind_named("ConfigMap"), "kube-system", "podfit-panic")
        freed = await becomes(cluster.admin, POD, "default", "new", is_free)
        assert freed is not None and updater.passes == 0


async def test_an_event_says_that_a_freeze_holds_a_pod_back(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web")
    note = {"metadata": {"annotations": {"podfit.dev/freeze": "true"}}}
    await cluster.admin.patch(NAMESPACE, "", "default", note)
    updater = Updater(cluster.client, UpdaterConfig(address=""), cluster.clock)
    async with admitting(cluster):
        pod = await create(cluster, annotations={"podfit.dev/requires-vpa": "true"})
        assert pod["spec"]["schedulingGates"]
        await updater.start()
        try:
            await updater.one_pass()
            await updater.events.flush()
        finally:
            await updater.stop()
    events = (await cluster.admin.list(kind_named("Event"), "default"))["items"]
    [reported] = [event["message"] for event in events if event["reason"] == "WaitingForVPA"]
    assert "podfit.dev/freeze on Namespace default" in reported


async def test_with_the_failure_policy_fail_pods_are_rejected_while_the_webhook_is_away(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 0)
    async with admitting(cluster, replace(CONFIG, webhook_failure_policy_fail=True)):
        pass
    with pytest.raises(ApiError) as refused:
        await create(cluster)
    assert "vpa.k8s.io" in refused.value.message


async def test_only_pods_that_nothing_autoscales_and_that_wait_for_nothing_are_admitted_without_a_review(
    cluster: Autoscaled,
) -> None:
    waiting = {"metadata": {"annotations": {"podfit.dev/requires-vpa": "true"}}, "spec": {}}
    async with admitting(cluster) as webhook:
        assert webhook.reviews.may_skip(("", "pods"), "default", {"metadata": {}, "spec": {}})
        assert not webhook.reviews.may_skip(("", "pods"), "default", waiting)
        assert not webhook.reviews.may_skip(("autoscaling.k8s.io", "verticalpodautoscalers"), "default", {})
        await cluster.deployment("web", 0)
        await cluster.vpa("web", "web")
        while not webhook.index.namespaces:
            await cluster.clock.sleep(0.01)
        assert not webhook.reviews.may_skip(("", "pods"), "default", {"metadata": {}, "spec": {}})
        assert webhook.reviews.may_skip(("", "pods"), "other", {"metadata": {}, "spec": {}})


async def test_odd_requests_are_let_through(cluster: Autoscaled) -> None:
    async with admitting(cluster) as webhook:
        for body in (b"", b"{", b"[]", b'{"request": 5}', b'{"request": {"resource": {"resource": "pods"}}}'):
            _, verdict = await webhook.reviews.admit(body)
            assert verdict.allowed
        odd = b'{"request": {"uid": "u", "resource": {"version": "v1", "resource": "pods"}, "object": {"spec": 7}}}'
        kind, verdict = await webhook.reviews.admit(odd)
        assert (kind, verdict.uid, verdict.allowed) == ("Pod", "u", True)


async def test_outcomes_of_requests_are_counted_as_upstream(cluster: Autoscaled) -> None:
    target = {"kind": "Deployment", "name": "web"}
    objects: list[tuple[str, str, Any, tuple[str, str]]] = [
        ("autoscaling.k8s.io", "verticalpodautoscalers", {"targetRef": target}, ("applied", "VPA")),
        ("autoscaling.k8s.io", "verticalpodautoscalers", {"updatePolicy": {"updateMode": "Off"}}, ("skipped", "VPA")),
        ("autoscaling.k8s.io", "verticalpodautoscalers", {"updatePolicy": {}}, ("error", "VPA")),
        ("", "pods", {}, ("skipped", "Pod")),
        ("", "pods", 7, ("error", "Pod")),
        ("apps", "deployments", {}, ("error", "unknown")),
    ]
    async with admitting(cluster) as webhook:
        read = webhook.registry.get_sample_value
        for group, resource, spec, (status, kind) in objects:
            labels = {"status": status, "resource": kind}
            before = read("vpa_admission_controller_admission_latency_seconds_count", labels) or 0
            asked = {"group": group, "version": "v1", "resource": resource}
            request = {"uid": "u", "resource": asked, "namespace": "default", "object": {"spec": spec}}
            await webhook.reviews.answer_here({"request": request})
            assert read("vpa_admission_controller_admission_latency_seconds_count", labels) == before + 1
        assert read("vpa_admission_controller_admission_pods_total", {"applied": "false"}) == 1


async def test_the_secret_holds_what_is_served(cluster: Autoscaled) -> None:
    async with admitting(cluster) as webhook:
        secret = await cluster.admin.get(SECRET, "kube-system", "vpa-tls-certs")
        assert webhook._certificates is not None
        assert base64.b64decode(secret["data"]["serverCert.pem"]) == webhook._certificates.cert
