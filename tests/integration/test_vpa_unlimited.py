"""Limits and the autoscaler: removed from new pods, or kept, with a condition if a limit caps a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled

from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.kit.clock import FakeClock
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.loop import AdmissionWebhook
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

LIMITED = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "200m", "memory": "200Mi"}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


def policy(values: str, **more: Any) -> dict[str, Any]:
    return {"containerPolicies": [{"containerName": "*", "controlledValues": values, **more}]}


@asynccontextmanager
async def admitting(cluster: Autoscaled) -> AsyncIterator[None]:
    config = AdmissionConfig(address="", host="127.0.0.1", port=0, register_by_url=True, webhook_address="127.0.0.1")
    webhook = AdmissionWebhook(cluster.client, config)
    await webhook.start()
    await webhook.upkeep()
    try:
        yield
    finally:
        await webhook.stop()


async def created(cluster: Autoscaled, values: str, target: dict[str, str], **more: Any) -> dict[str, Any]:
    """The stored resources of a new pod."""
    await cluster.vpa("web", "web", targetRef=None, selector={}, resourcePolicy=policy(values, **more))
    await cluster.recommend("web", target)
    async with admitting(cluster):
        pod = await cluster.pod("new", resources=LIMITED, node="")
    found: dict[str, Any] = pod["spec"]["containers"][0]["resources"]
    return found


async def test_a_new_pod_has_no_limits_where_the_policy_wants_none(cluster: Autoscaled) -> None:
    made = await created(cluster, "RequestsWithoutLimits", {"cpu": "1", "memory": "1Gi"})
    assert made == {"requests": {"cpu": "1", "memory": "1Gi"}}


async def test_a_resource_that_nothing_is_recommended_for_keeps_its_limit(cluster: Autoscaled) -> None:
    made = await created(cluster, "RequestsWithoutLimits", {"cpu": "1"})
    assert made == {"requests": {"cpu": "1", "memory": "100Mi"}, "limits": {"memory": "200Mi"}}


async def test_a_limit_that_the_namespace_insists_on_stays_and_follows(cluster: Autoscaled) -> None:
    quotas = kind_named("ResourceQuota")
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"limits.cpu": "9"}},
    }
    await cluster.admin.create(quotas, body, "default")
    ranges = kind_named("LimitRange")
    item = {"type": "Container", "max": {"memory": "4Gi"}}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": [item]}}
    await cluster.admin.create(ranges, body, "default")
    made = await created(cluster, "RequestsWithoutLimits", {"cpu": "1", "memory": "1Gi"})
    assert made == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}


async def test_a_running_pod_keeps_its_limits_in_proportion_because_none_can_be_removed(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 1, limits=LIMITED["limits"])
    update = {"updateMode": "InPlaceOrRecreate"}
    await cluster.vpa("web", "web", resourcePolicy=policy("RequestsWithoutLimits"), updatePolicy=update)
    await cluster.recommend("web", {"cpu": "1"}, lowerBound={"cpu": "900m"}, upperBound={"cpu": "2"})
    updater = Updater(cluster.client, UpdaterConfig(address="", in_place_skip_disruption_budget=True), cluster.clock)
    await updater.start()
    await updater.one_pass()
    await updater.stop()
    [container] = (await cluster.admin.get(POD, "default", "web-1-0"))["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "1" and container["resources"]["limits"]["cpu"] == "2"


async def test_a_limit_that_holds_a_request_down_is_named(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 2, cpu="200m", limits={"cpu": "200m"})
    await cluster.vpa("web", "web", resourcePolicy=policy("RequestsOnly"), updatePolicy={"updateMode": "Recreate"})
    for pod in ("web-1-0", "web-1-1"):
        cluster.use(pod, "2", "300000000")
    recommender = Recommender(cluster.client, RecommenderConfig(address=""), None, cluster.clock)
    await recommender.start()
    for _ in range(4):
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await recommender.one_pass()
    await recommender.stop()
    status = (await cluster.admin.get(VPA, "default", "web"))["status"]
    [reported] = [condition for condition in status["conditions"] if condition["type"] == "CappedByLimit"]
    assert (
        reported["status"] == "True" and "its limit is 200m" in reported["message"] and "web-1-0" in reported["message"]
    )
    assert "its limit is 200m" in status["statusMessage"]


async def test_the_updater_says_that_a_limit_holds_a_pod_down(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 2, cpu="200m", limits={"cpu": "200m"})
    await cluster.vpa("web", "web", resourcePolicy=policy("RequestsOnly"), updatePolicy={"updateMode": "Recreate"})
    await cluster.recommend("web", {"cpu": "1"}, lowerBound={"cpu": "900m"}, upperBound={"cpu": "2"})
    updater = Updater(cluster.client, UpdaterConfig(address=""), cluster.clock)
    await updater.start()
    await updater.one_pass()
    reported = updater.skip_reasons.of(("default", "web"))
    await updater.stop()
    assert reported is not None and reported["pods"]["web-1-0"]["reason"] == "CappedByLimit"
    assert "1 of cpu is recommended, its limit is 200m" in reported["pods"]["web-1-0"]["message"]
