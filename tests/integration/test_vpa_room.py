"""One account of free capacity for all autoscalers: a pod is evicted only if its successor fits a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import REPLICA_SET, Autoscaled, autoscaled
from tests.support.cluster.expect import all_become
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.registry.kinds import LEASE, POD, VPA, kind_named
from podfit.kit.clock import FakeClock, rfc3339_micro
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

CONFIG = UpdaterConfig(address="", scale_down_delay=0)
DEPLOYMENT, QUOTA = kind_named("Deployment"), kind_named("ResourceQuota")
RECREATE = {"updateMode": "Recreate"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        spec = {"holderIdentity": "webhook", "renewTime": rfc3339_micro(made.clock.now() + 86400)}
        lease = {"metadata": {"name": "vpa-admission-controller"}, "spec": spec}
        await made.admin.create(LEASE, {"apiVersion": LEASE.api_version, "kind": "Lease", **lease}, "kube-system")
        yield made


@pytest.fixture
async def updater(cluster: Autoscaled) -> AsyncIterator[Updater]:
    made = Updater(cluster.client, CONFIG, cluster.clock)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def one_pass(cluster: Autoscaled, updater: Updater, seconds: float = 60) -> None:
    await cluster.clock.advance(seconds)  # type: ignore[attr-defined]
    await updater.one_pass()


async def scaled(cluster: Autoscaled, name: str, node: str, target: str, lower: str, pods: int = 2) -> list[str]:
    names = await cluster.deployment(name, pods, node=node)
    await cluster.vpa(name, name, updatePolicy=RECREATE)
    bounds: Any = {"lowerBound": {"cpu": lower, "memory": "50Mi"}, "upperBound": {"cpu": "90", "memory": "1Gi"}}
    await cluster.recommend(name, {"cpu": target, "memory": "100Mi"}, **bounds)
    return names


async def evicted(cluster: Autoscaled, *deployments: str) -> list[str]:
    """The pods of these Deployments of two pods each that are deleted or terminating."""
    found = await cluster.admin.list(POD, "default")
    alive = {pod["metadata"]["name"] for pod in found["items"] if not pod["metadata"].get("deletionTimestamp")}
    return sorted({f"{name}-1-{number}" for name in deployments for number in (0, 1)} - alive)


def verdict(updater: Updater, vpa: str, pod: str) -> Any:
    story = updater.skip_reasons.of(("default", vpa))
    assert story is not None
    return story["pods"].get(pod, {"reason": "", "message": ""})


async def full_elsewhere(cluster: Autoscaled) -> None:
    """Node n1 of the cluster has no free capacity; the test uses node small."""
    await cluster.pod("filler", resources={"requests": {"cpu": "8"}})
    await cluster.node("small", cpu="2", memory="4Gi")


async def test_two_autoscalers_do_not_reserve_the_same_room(cluster: Autoscaled, updater: Updater) -> None:
    await full_elsewhere(cluster)
    await scaled(cluster, "a", "small", "920m", "900m")
    await scaled(cluster, "b", "small", "920m", "900m")
    await one_pass(cluster, updater)
    gone = await evicted(cluster, "a", "b")
    assert len(gone) == 1, "2000m hold one pod of 920m and three of 100m, not two and two of them"
    other = "b" if gone[0].startswith("a") else "a"
    reported = verdict(updater, other, f"{other}-1-0")
    assert reported["reason"] == "NoNodeFits"
    assert "900m of cpu" in reported["message"] and "1 other pods" in reported["message"]


async def test_no_further_pod_is_evicted_while_a_successor_is_on_its_way(cluster: Autoscaled, updater: Updater) -> None:
    await full_elsewhere(cluster)
    await scaled(cluster, "a", "small", "920m", "900m")
    await scaled(cluster, "b", "small", "920m", "900m")
    for _ in range(3):
        await one_pass(cluster, updater)
    assert len(await evicted(cluster, "a", "b")) == 1


async def test_no_room_is_reserved_for_a_pod_that_will_not_be_recreated(cluster: Autoscaled, updater: Updater) -> None:
    await full_elsewhere(cluster)
    await scaled(cluster, "a", "small", "920m", "900m")
    await one_pass(cluster, updater)
    assert len(await evicted(cluster, "a")) == 1
    await scaled(cluster, "b", "small", "920m", "900m")
    await one_pass(cluster, updater)
    assert await evicted(cluster, "b") == [], "the successor in a may come, and take the room"
    await cluster.admin.patch(REPLICA_SET, "default", "a-1", {"spec": {"replicas": 1}})
    async with asyncio.timeout(20):
        while updater.targets.wanted_of("default", "ReplicaSet", "a-1") != 1:
            await asyncio.sleep(0.01)
    await one_pass(cluster, updater)
    assert len(await evicted(cluster, "b")) == 1


async def test_no_pod_is_evicted_while_another_waits_for_the_same_room(cluster: Autoscaled, updater: Updater) -> None:
    await full_elsewhere(cluster)
    await scaled(cluster, "a", "small", "920m", "900m")
    await cluster.pod("waiting", node="", resources={"requests": {"cpu": "1500m", "memory": "1Gi"}})
    await one_pass(cluster, updater)
    assert await evicted(cluster, "a") == []
    assert verdict(updater, "a", "a-1-0")["reason"] == "NoNodeFits"


async def test_a_resize_in_place_leaves_a_successor_elsewhere_its_place(cluster: Autoscaled, updater: Updater) -> None:
    """A pod of a is evicted from node home. The waiting pod may take its capacity there: the successor needs
    node other.
    """
    await cluster.pod("filler", resources={"requests": {"cpu": "8"}})
    await cluster.node("home", cpu="1", memory="4Gi")
    await cluster.node("other", cpu="2", memory="4Gi")
    await cluster.pod("filler-too", node="home", resources={"requests": {"cpu": "500m"}})
    await cluster.deployment("a", 2, node="home", cpu="200m")
    await cluster.vpa("a", "a", updatePolicy=RECREATE)
    await cluster.recommend("a", {"cpu": "300m", "memory": "100Mi"}, lowerBound={"cpu": "300m", "memory": "50Mi"})
    await cluster.pod("waiting", node="", resources={"requests": {"cpu": "300m", "memory": "1Mi"}})
    await cluster.deployment("b", 1, node="other", cpu="100m")
    await cluster.vpa("b", "b", updatePolicy={"updateMode": "InPlaceOrRecreate", "minReplicas": 1})
    await cluster.recommend("b", {"cpu": "2", "memory": "100Mi"}, lowerBound={"cpu": "500m", "memory": "50Mi"})
    await one_pass(cluster, updater)
    assert len(await evicted(cluster, "a")) == 1
    pod = await cluster.admin.get(POD, "default", "b-1-0")
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1400m", "2000m less twice 300m"
    story = updater.skip_reasons.of(("default", "b"))
    assert story is not None and "node other, less what pods without a node need," in story["cut"]["b-1-0"]


async def test_a_successor_may_be_squeezed_to_its_lower_bound(cluster: Autoscaled, updater: Updater) -> None:
    await full_elsewhere(cluster)
    await scaled(cluster, "a", "small", "2900m", "500m")
    await one_pass(cluster, updater)
    await updater.events.flush()
    assert len(await evicted(cluster, "a")) == 1
    story = updater.skip_reasons.of(("default", "a"))
    assert story is not None
    [cut] = story["cut"].values()
    assert "of cpu instead of" in cut and "its successor gets less" in cut


async def test_a_pod_is_not_evicted_for_a_successor_of_the_same_size(cluster: Autoscaled, updater: Updater) -> None:
    await full_elsewhere(cluster)
    await cluster.pod("neighbour", node="small", resources={"requests": {"cpu": "1800m"}})
    await scaled(cluster, "a", "small", "920m", "100m")
    memory: Any = {"lowerBound": {"cpu": "100m", "memory": "100Mi"}, "upperBound": {"cpu": "100m", "memory": "1Gi"}}
    await cluster.recommend("a", {"cpu": "920m", "memory": "100Mi"}, **memory)
    await one_pass(cluster, updater, 13 * 3600)
    assert await evicted(cluster, "a") == []
    reported = verdict(updater, "a", "a-1-0")
    assert reported["reason"] == "NoRoom" and "100m of cpu" in reported["message"]


@pytest.mark.parametrize("kind", ["requests", "limits"])
async def test_a_quota_is_reserved_once(cluster: Autoscaled, updater: Updater, kind: str) -> None:
    limits = {"cpu": "100m"}
    for name in ("a", "b"):
        await cluster.deployment(name, 2, limits=limits)
        await cluster.vpa(name, name, updatePolicy=RECREATE)
        bounds: Any = {"lowerBound": {"cpu": "450m"}, "upperBound": {"cpu": "1"}}
        await cluster.recommend(name, {"cpu": "500m"}, **bounds)
    hard, used = {f"{kind}.cpu": "1"}, {f"{kind}.cpu": "400m"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    await cluster.admin.create(QUOTA, {"apiVersion": "v1", "kind": "ResourceQuota", **quota}, "default")
    await cluster.admin.patch(QUOTA, "default", "q", {"status": {"hard": hard, "used": used}}, "status")
    await one_pass(cluster, updater)
    gone = await evicted(cluster, "a", "b")
    assert len(gone) == 1, "600m are left, and a successor takes 400m of them"
    other = "b" if gone[0].startswith("a") else "a"
    reported = verdict(updater, other, f"{other}-1-0")
    assert reported["reason"] == "QuotaExceeded"
    assert f"has 200m of {kind}.cpu left, 350m more are needed" in reported["message"]


async def test_on_a_small_node_every_deployment_keeps_all_its_pods(tmp_path: Path) -> None:
    """The whole autoscaler: four pods of which the node can hold two at the recommended size."""
    flags = {
        "recommender": ["--recommender-interval=200ms", "--pod-recommendation-min-cpu-millicores=920"],
        "updater": ["--updater-interval=200ms", "--scale-down-delay=0"],
    }
    capacity = {"cpu": "2", "memory": "4Gi"}
    async with Whole(tmp_path, vpa=True, vpa_flags=flags, node_capacity=capacity) as whole:
        for name in ("a", "b"):
            await whole.client.create(DEPLOYMENT, workload("Deployment", name, 2, pod=pod_spec("100m", "64Mi", "")))
        await all_become(whole.client, POD, "default", lambda pods: len(pods) == 4 and all(map(_runs, pods)))
        for name in ("a", "b"):
            reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
            spec = {"targetRef": reference, "updatePolicy": {"updateMode": "Auto"}}
            body = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": name}, "spec": spec}
            await whole.client.create(VPA, body, "default")
        autoscaler = whole.up.autoscaler
        assert autoscaler is not None
        pods = await all_become(
            whole.client, POD, "default", lambda pods: any(_cpu(pod) != "100m" for pod in pods), patience_s=60
        )
        seen = autoscaler.updater.passes
        async with asyncio.timeout(60):
            while autoscaler.updater.passes < seen + 10:
                await asyncio.sleep(0.05)
        pods = await all_become(
            whole.client, POD, "default", lambda pods: len(pods) == 4 and all(map(_runs, pods)), patience_s=30
        )
        assert sorted(pod["metadata"]["labels"]["app"] for pod in pods) == ["a", "a", "b", "b"]


def _runs(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) and not pod["metadata"].get("deletionTimestamp")


def _cpu(pod: dict[str, Any]) -> Any:
    return pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
