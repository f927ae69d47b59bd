"""A resize that restarts containers respects disruption budgets and the rules of an eviction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import REPLICA_SET, Autoscaled, autoscaled

from podfit.api.registry.kinds import POD, kind_named
from podfit.kit.clock import FakeClock
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

CONFIG = UpdaterConfig(
    address="",
    scale_down_delay=0,
    eviction_tolerance=1.0,
    in_place_skip_disruption_budget=True,
    feature_gates={"InPlace": True},
)
BUDGET = kind_named("PodDisruptionBudget")
SMALL: dict[str, Any] = {"requests": {"cpu": "100m", "memory": "100Mi"}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


@pytest.fixture
async def updater(cluster: Autoscaled) -> AsyncIterator[Updater]:
    made = Updater(cluster.client, CONFIG, cluster.clock)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def one_pass(cluster: Autoscaled, updater: Updater) -> None:
    await cluster.clock.advance(60)  # type: ignore[attr-defined]
    await updater.one_pass()


async def restarting(cluster: Autoscaled, name: str, pods: int = 3, **policy: Any) -> list[str]:
    """A Deployment whose pods restart when their CPU changes, with an autoscaler that raises it."""
    await cluster.deployment(name, 0)
    found = await cluster.admin.patch(REPLICA_SET, "default", f"{name}-1", {"spec": {"replicas": pods}})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-1", "uid": found["metadata"]["uid"]}
    rule = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    container = {"name": "main", "image": "i", "resources": SMALL, "resizePolicy": [rule]}
    names = [f"{name}-1-{number}" for number in range(pods)]
    for word in names:
        labels = {"app": name, "all": "yes"}
        controller = {**owner, "controller": True}
        await cluster.pod(word, labels=labels, owner=controller, resources=SMALL, containers=[container])
    await cluster.vpa(name, name, updatePolicy={"updateMode": "InPlace", **policy})
    await cluster.recommend(name, {"cpu": "500m"}, lowerBound={"cpu": "400m"}, upperBound={"cpu": "1"})
    return names


async def budget(cluster: Autoscaled, allowed: int, **selector: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": selector}}
    body = {"apiVersion": BUDGET.api_version, "kind": BUDGET.kind, "metadata": {"name": "budget"}, "spec": spec}
    made = await cluster.admin.create(BUDGET, body, "default")
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "disruptionsAllowed": allowed,
        "currentHealthy": 3,
        "desiredHealthy": 3 - allowed,
        "expectedPods": 3,
    }
    await cluster.admin.patch(BUDGET, "default", "budget", {"status": status}, "status")


async def resized(cluster: Autoscaled, pods: list[str]) -> list[str]:
    found = [await cluster.admin.get(POD, "default", pod) for pod in pods]
    return [
        pod["metadata"]["name"]
        for pod in found
        if pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"
    ]


def verdict(updater: Updater, vpa: str, pod: str) -> Any:
    story = updater.skip_reasons.of(("default", vpa))
    assert story is not None
    return story["pods"].get(pod)


async def test_without_allowed_disruptions_nothing_is_restarted(cluster: Autoscaled, updater: Updater) -> None:
    pods = await restarting(cluster, "web")
    await budget(cluster, 0, app="web")
    for _ in range(2):
        await one_pass(cluster, updater)
    assert await resized(cluster, pods) == []
    reported = verdict(updater, "web", pods[0])
    assert reported["reason"] == "DisruptionBudget"
    assert "restarts container main" in reported["message"] and "disruption budget" in reported["message"]


async def test_one_pod_restarts_at_a_time(cluster: Autoscaled, updater: Updater) -> None:
    pods = await restarting(cluster, "web")
    await budget(cluster, 2, app="web")
    await one_pass(cluster, updater)
    [first] = await resized(cluster, pods)
    await one_pass(cluster, updater)
    assert await resized(cluster, pods) == [first], "it does not have what it was given yet"
    reported = next(verdict(updater, "web", pod) for pod in pods if pod != first)
    assert reported["reason"] == "RestartUnderWay" and first in reported["message"]
    large = {"requests": {"cpu": "500m", "memory": "100Mi"}}
    await cluster.running("default", first, resources=large, restartCount=1)
    async with asyncio.timeout(20):
        while (updater.pods.get("default", first) or {})["status"]["containerStatuses"][0]["restartCount"] < 1:
            await asyncio.sleep(0.01)
    await one_pass(cluster, updater)
    assert len(await resized(cluster, pods)) == 2


async def test_pods_of_one_budget_restart_one_at_a_time(cluster: Autoscaled, updater: Updater) -> None:
    pods = [*await restarting(cluster, "a"), *await restarting(cluster, "b")]
    await budget(cluster, 1, all="yes")
    for _ in range(2):
        await one_pass(cluster, updater)
    assert len(await resized(cluster, pods)) == 1


async def test_a_single_replica_is_restarted_only_if_the_autoscaler_allows(
    cluster: Autoscaled, updater: Updater
) -> None:
    kept = await restarting(cluster, "kept", 1)
    allowed = await restarting(cluster, "allowed", 1, minReplicas=1)
    await one_pass(cluster, updater)
    assert await resized(cluster, kept) == [] and await resized(cluster, allowed) == allowed
    reported = verdict(updater, "kept", kept[0])
    assert reported["reason"] == "TooFewReplicas" and "1 of at least 2 replicas" in reported["message"]


async def test_a_resize_without_restart_checks_no_budget(cluster: Autoscaled, updater: Updater) -> None:
    pods = await restarting(cluster, "web")
    bounds: Any = {"lowerBound": {"memory": "150Mi"}, "upperBound": {"memory": "1Gi"}}
    await cluster.recommend("web", {"cpu": "100m", "memory": "200Mi"}, **bounds)
    await budget(cluster, 0, app="web")
    await one_pass(cluster, updater)
    found = [await cluster.admin.get(POD, "default", pod) for pod in pods]
    assert "200Mi" in {pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in found}
