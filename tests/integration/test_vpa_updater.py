"""The updater against podfit's API server: which pods are resized, evicted or left unchanged, and why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled

from podfit.api.registry.kinds import LEASE, NAMESPACE, POD, VPA, kind_named
from podfit.kit.clock import FakeClock, rfc3339_micro
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

CONFIG = UpdaterConfig(address="", scale_down_delay=0, feature_gates={"InPlace": True})
IN_PLACE = {"updateMode": "InPlaceOrRecreate"}
CONFIG_MAP = kind_named("ConfigMap")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


@asynccontextmanager
async def updating(cluster: Autoscaled, config: UpdaterConfig = CONFIG) -> AsyncIterator[Updater]:
    made = Updater(cluster.client, config, cluster.clock)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def one_pass(cluster: Autoscaled, updater: Updater, seconds: float = 60) -> None:
    await cluster.clock.advance(seconds)  # type: ignore[attr-defined]
    await updater.one_pass()


async def admission_lives(cluster: Autoscaled) -> None:
    now = rfc3339_micro(cluster.clock.now() + 3600)
    spec = {"holderIdentity": "webhook", "renewTime": now}
    lease = {"metadata": {"name": "vpa-admission-controller"}, "spec": spec}
    await cluster.admin.create(LEASE, {"apiVersion": LEASE.api_version, "kind": "Lease", **lease}, "kube-system")


async def requests(cluster: Autoscaled, pod: str) -> Any:
    found = await cluster.admin.get(POD, "default", pod)
    return found["spec"]["containers"][0]["resources"]["requests"]


async def resized(cluster: Autoscaled, pods: list[str], to: str) -> list[str]:
    return [pod for pod in pods if (await requests(cluster, pod))["cpu"] == to]


async def leaving(cluster: Autoscaled, pod: str) -> bool:
    found = await cluster.admin.find(POD, "default", pod)
    return found is None or "deletionTimestamp" in found["metadata"]


def bounds(low: str, high: str) -> dict[str, Any]:
    return {"lowerBound": {"cpu": low, "memory": "50Mi"}, "upperBound": {"cpu": high, "memory": "1Gi"}}


async def test_pods_are_resized_in_place_half_of_them_a_pass(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 4)
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "500m", "memory": "200Mi"}, **bounds("400m", "1"))
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        assert len(await resized(cluster, pods, "500m")) == 2
        await one_pass(cluster, updater)
    assert len(await resized(cluster, pods, "500m")) == 4
    pod = await cluster.admin.get(POD, "default", pods[0])
    assert pod["metadata"]["annotations"]["vpaInPlaceUpdated"] == "true"
    assert not pod["metadata"].get("deletionTimestamp")


@pytest.mark.parametrize("mode", ["Off", "Initial"])
async def test_modes_that_leave_running_pods_alone(cluster: Autoscaled, mode: str) -> None:
    pods = await cluster.deployment("web", 2)
    await cluster.vpa("web", "web", updatePolicy={"updateMode": mode})
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
    assert await resized(cluster, pods, "100m") == pods


@pytest.mark.parametrize("mode", ["Recreate", "Auto"])
async def test_recreating_modes_evict(cluster: Autoscaled, mode: str) -> None:
    pods = await cluster.deployment("web", 2)
    await cluster.vpa("web", "web", updatePolicy={"updateMode": mode})
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    await admission_lives(cluster)
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        await updater.events.flush()
    found = [await cluster.admin.find(POD, "default", pod) for pod in pods]
    assert sum(pod is None or "deletionTimestamp" in pod["metadata"] for pod in found) == 1
    events = await cluster.admin.list(kind_named("Event"), "default")
    assert {"EvictedByVPA", "EvictedPod"} <= {event["reason"] for event in events["items"]}


@pytest.mark.parametrize(
    ("mode", "counted"),
    [
        ("Recreate", {"evictable_pods_total": 4, "vpas_with_evictable_pods_total": 1, "evicted_pods_total": 2}),
        ("InPlaceOrRecreate", {"in_place_updatable_pods_total": 4, "in_place_updated_pods_total": 2}),
    ],
)
async def test_pods_worth_a_change_are_counted_beyond_their_budget(
    cluster: Autoscaled, mode: str, counted: dict[str, int]
) -> None:
    await cluster.deployment("web", 4)
    await cluster.vpa("web", "web", updatePolicy={"updateMode": mode})
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    await admission_lives(cluster)
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        found = {sample.name: sample.value for family in updater.registry.collect() for sample in family.samples}
    assert {name: found[f"vpa_updater_{name}"] for name in counted} == counted


async def test_nothing_is_evicted_while_the_webhook_is_away(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2)
    await cluster.vpa("web", "web", updatePolicy={"updateMode": "Recreate"})
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        assert updater.skip_reasons.of(("default", "web"))["pods"][pods[0]]["reason"] == "NoAdmission"  # type: ignore[index]
    assert await resized(cluster, pods, "100m") == pods


async def test_a_resize_is_cut_to_what_the_node_has_left(cluster: Autoscaled) -> None:
    await cluster.node("small", cpu="1", memory="4Gi")
    pods = await cluster.deployment("web", 2, node="small")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "2", "memory": "200Mi"}, **bounds("400m", "3"))
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        await updater.events.flush()
        story = updater.skip_reasons.of(("default", "web"))
    # 1000m, of which the other pod has 100m.
    assert sorted([(await requests(cluster, pod))["cpu"] for pod in pods]) == ["100m", "900m"]
    assert story is not None
    [words] = story["cut"].values()
    assert words.startswith("container main gets 900m of cpu instead of 2: the capacity left on node small")
    events = await cluster.admin.list(kind_named("Event"), "default")
    assert next(event["message"] for event in events["items"] if event["reason"] == "ResizeCut").endswith(f"{words}.")


async def test_a_resize_waits_when_even_the_lower_bound_does_not_fit(cluster: Autoscaled) -> None:
    await cluster.node("small", cpu="1", memory="4Gi")
    await cluster.deployment("other", 1, cpu="7900m")
    pods = await cluster.deployment("web", 2, node="small")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "6", "memory": "200Mi"}, **bounds("5", "7"))
    await admission_lives(cluster)
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        await updater.events.flush()
        story = updater.skip_reasons.of(("default", "web"))
        assert story is not None and story["pods"][pods[0]]["reason"] == "NoRoom"
        assert "node small has 800m of cpu left" in story["pods"][pods[0]]["message"]
        # No other node has capacity either, so waiting does not end in an eviction.
        await one_pass(cluster, updater, 400)
        story = updater.skip_reasons.of(("default", "web"))
        assert story is not None and story["pods"][pods[0]]["reason"] in ("NoRoom", "NoNodeFits")
    assert await resized(cluster, pods, "100m") == pods
    events = await cluster.admin.list(kind_named("Event"), "default")
    assert "PodLeftAlone" in {event["reason"] for event in events["items"]}


async def test_a_quota_holds_a_resize_back(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2)
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "300m"}}}
    kind = kind_named("ResourceQuota")
    await cluster.admin.create(kind, {"apiVersion": "v1", "kind": "ResourceQuota", **quota}, "default")
    status = {"hard": {"requests.cpu": "300m"}, "used": {"requests.cpu": "200m"}}
    await cluster.admin.patch(kind, "default", "q", {"status": status}, "status")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "2", "memory": "200Mi"}, **bounds("1", "3"))
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        story = updater.skip_reasons.of(("default", "web"))
    assert story is not None and "the quota has 100m of cpu left" in story["pods"][pods[0]]["message"]
    assert await resized(cluster, pods, "100m") == pods


async def test_the_panic_button_freezes_everything_and_reverts_nothing(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 4)
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "500m", "memory": "200Mi"}, **bounds("400m", "1"))
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        panic = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "podfit-panic"}}
        await cluster.admin.create(CONFIG_MAP, panic, "kube-system")
        await one_pass(cluster, updater)
        assert len(await resized(cluster, pods, "500m")) == 2
        story = updater.skip_reasons.of(("default", "web"))
        assert story is not None and {event["reason"] for event in story["pods"].values()} == {"PanicButton"}
        await cluster.admin.delete(CONFIG_MAP, "kube-system", "podfit-panic")
        await one_pass(cluster, updater)
    assert len(await resized(cluster, pods, "500m")) == 4


@pytest.mark.parametrize("where", ["vpa", "namespace"])
async def test_an_annotation_freezes_an_autoscaler_or_a_namespace(cluster: Autoscaled, where: str) -> None:
    pods = await cluster.deployment("web", 2)
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    note = {"metadata": {"annotations": {"podfit.dev/freeze": "true"}}}
    if where == "vpa":
        await cluster.admin.patch(VPA, "default", "web", note)
    else:
        await cluster.admin.patch(NAMESPACE, "", "default", note)
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        story = updater.skip_reasons.of(("default", "web"))
        assert story is not None and story["pods"][pods[0]]["reason"] == "Frozen"
    assert await resized(cluster, pods, "100m") == pods


async def test_changes_wait_for_their_maintenance_window(cluster: Autoscaled) -> None:
    # The fake clock begins on Tue 2023-11-14 22:13 UTC.
    pods = await cluster.deployment("web", 2)
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    async with updating(cluster, replace(CONFIG, maintenance_windows="Tue 23:00-04:00")) as updater:
        await one_pass(cluster, updater)
        assert await resized(cluster, pods, "100m") == pods
        await one_pass(cluster, updater, 3600)
    assert len(await resized(cluster, pods, "500m")) == 1


async def test_the_budget_of_changes_is_the_whole_clusters(cluster: Autoscaled) -> None:
    everyone = []
    for name in ("a", "b", "c"):
        everyone += await cluster.deployment(name, 4)
        await cluster.vpa(name, name, updatePolicy=IN_PLACE)
        await cluster.recommend(name, {"cpu": "500m"}, **bounds("400m", "1"))
    async with updating(cluster, replace(CONFIG, changes_per_minute=3)) as updater:
        await one_pass(cluster, updater)
        assert len(await resized(cluster, everyone, "500m")) == 3
        await one_pass(cluster, updater)
        assert len(await resized(cluster, everyone, "500m")) == 6


async def test_requests_fall_by_at_most_half_a_pass(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2, cpu="1600m")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "100m"}, lowerBound={"cpu": "50m"}, upperBound={"cpu": "200m"})
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        assert "800m" in [(await requests(cluster, pod))["cpu"] for pod in pods]


async def test_requests_fall_step_by_step_to_the_target(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", 1, cpu="1600m")
    await cluster.vpa("web", "web", updatePolicy={**IN_PLACE, "minReplicas": 1})
    await cluster.recommend("web", {"cpu": "100m"}, lowerBound={"cpu": "50m"}, upperBound={"cpu": "1500m"})
    seen = []
    async with updating(cluster) as updater:
        for _ in range(6):
            await one_pass(cluster, updater)
            seen.append((await requests(cluster, pod))["cpu"])
            await cluster.running("default", pod, resources={"requests": await requests(cluster, pod)})
    assert seen == ["800m", "400m", "200m", "100m", "100m", "100m"]


async def test_a_pod_on_its_way_down_is_not_evicted_for_that(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", 1, cpu="1600m")
    await cluster.vpa("web", "web", updatePolicy={**IN_PLACE, "minReplicas": 1})
    await cluster.recommend("web", {"cpu": "100m"}, lowerBound={"cpu": "50m"}, upperBound={"cpu": "1500m"})
    await admission_lives(cluster)
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        await cluster.running("default", pod, resources={"requests": await requests(cluster, pod)})
        await cluster.admin.patch(VPA, "default", "web", {"spec": {"updatePolicy": {"updateMode": "Recreate"}}})
        await one_pass(cluster, updater)
    assert not (await cluster.admin.get(POD, "default", pod))["metadata"].get("deletionTimestamp")


@pytest.mark.parametrize(("mode", "cpu"), [("Off", "100m"), ("InPlaceOrRecreate", "50m")])
async def test_a_boost_is_withdrawn_at_once_and_permanently(cluster: Autoscaled, mode: str, cpu: str) -> None:
    (pod,) = await cluster.deployment("web", 1, cpu="800m")
    boost = {"cpu": {"type": "Factor", "factor": 8, "durationSeconds": 30}}
    await cluster.vpa("web", "web", updatePolicy={"updateMode": mode}, startupBoost=boost)
    await cluster.recommend("web", {"cpu": "50m", "memory": "100Mi"}, **bounds("20m", "1"))
    original = {"vpaCpuStartupBoost/main": '{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{}}'}
    await cluster.admin.patch(POD, "default", pod, {"metadata": {"annotations": original}})
    async with updating(cluster, replace(CONFIG, feature_gates={"CPUStartupBoost": True})) as updater:
        await one_pass(cluster, updater, 20)
        assert (await requests(cluster, pod))["cpu"] == "800m"
        await one_pass(cluster, updater)
        assert (await requests(cluster, pod))["cpu"] == cpu
        labels = {"vpa_size_log2": "0", "vpa_name": "web", "vpa_namespace": "default"}
        assert updater.registry.get_sample_value("vpa_updater_in_place_updated_pods_total", labels) == 1
        cluster.use(pod, cpu, "50Mi")
        await one_pass(cluster, updater)
    assert (await requests(cluster, pod))["cpu"] == cpu
    assert "vpaCpuStartupBoost/main" not in (await cluster.admin.get(POD, "default", pod))["metadata"]["annotations"]


async def test_requests_fall_only_after_the_target_stayed_low(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2, cpu="500m")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    async with updating(cluster, replace(CONFIG, scale_down_delay=300)) as updater:
        await one_pass(cluster, updater)
        await cluster.recommend("web", {"cpu": "300m"}, lowerBound={"cpu": "250m"}, upperBound={"cpu": "400m"})
        await one_pass(cluster, updater)
        assert await resized(cluster, pods, "500m") == pods
        await one_pass(cluster, updater, 400)
        assert await resized(cluster, pods, "300m")


async def test_a_resize_that_ends_in_an_oom_kill_is_undone(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2, memory="800Mi", limits={"memory": "800Mi"})
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"memory": "500Mi"}, lowerBound={"memory": "400Mi"}, upperBound={"memory": "600Mi"})
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        [pod] = [pod for pod in pods if (await requests(cluster, pod))["memory"] == "500Mi"]
        ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2023-11-14T22:15:00Z"}
        small = {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "500Mi"}}
        await cluster.running("default", pod, resources=small, restartCount=1, lastState={"terminated": ended})
        await cluster.clock.advance(1)  # type: ignore[attr-defined]
        assert (await requests(cluster, pod))["memory"] == "800Mi"
        large = {"requests": {"cpu": "100m", "memory": "800Mi"}, "limits": {"memory": "800Mi"}}
        await cluster.running("default", pod, resources=large, restartCount=1, lastState={"terminated": ended})
        await one_pass(cluster, updater)
        await one_pass(cluster, updater)
        assert (await requests(cluster, pod))["memory"] == "800Mi", "it is not lowered again at once"
        await updater.events.flush()
    events = await cluster.admin.list(kind_named("Event"), "default")
    assert {"ResizeUndone", "ResizeUndoneByVPA"} <= {event["reason"] for event in events["items"]}


@pytest.mark.parametrize("pods", [2, 40])
async def test_a_resize_that_ends_in_throttling_is_taken_back(cluster: Autoscaled, pods: int) -> None:
    names = await cluster.deployment("web", pods, cpu="400m", limits={"cpu": "800m"})
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "200m"}, lowerBound={"cpu": "150m"}, upperBound={"cpu": "250m"})
    async with updating(cluster, replace(CONFIG, eviction_tolerance=1.0)) as updater:
        await one_pass(cluster, updater)
        lowered = await resized(cluster, names, "200m")
        assert len(lowered) == pods
        small = {"requests": {"cpu": "200m", "memory": "100Mi"}, "limits": {"cpu": "400m"}}
        for name in names:
            await cluster.running("default", name, resources=small)
            cluster.use(name, "390m" if name == names[0] else "100m", "50Mi")
        await one_pass(cluster, updater, 20)
        assert await resized(cluster, names, "200m") == names, "too early to tell"
        await one_pass(cluster, updater, 20)
        await cluster.clock.advance(1)  # type: ignore[attr-defined]
        assert await resized(cluster, names, "400m") == names[:1]
        found = await cluster.admin.get(POD, "default", names[0])
        assert found["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "800m"
        large = {"requests": {"cpu": "400m", "memory": "100Mi"}, "limits": {"cpu": "800m"}}
        await cluster.running("default", names[0], resources=large)
        await one_pass(cluster, updater)
        await one_pass(cluster, updater)
        assert await resized(cluster, names, "400m") == names[:1], "it is not lowered again at once"
        await updater.events.flush()
    events = await cluster.admin.list(kind_named("Event"), "default")
    reported = [event["message"] for event in events["items"] if event["reason"] == "ResizeUndoneByVPA"]
    assert reported == ["A resize was undone: container main uses up its CPU limit."]


async def test_a_brake_pulled_while_a_change_waits_for_its_turn_holds_it(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 4)
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "300m"}, **bounds("250m", "350m"))
    slow = replace(CONFIG, eviction_tolerance=1.0, eviction_rate_limit=0.1, eviction_rate_burst=1)
    async with updating(cluster, slow) as updater:
        running = asyncio.ensure_future(updater.one_pass())
        while not await resized(cluster, pods, "300m"):
            await asyncio.sleep(0.01)
        panic = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "podfit-panic"}, "data": {}}
        await cluster.admin.create(CONFIG_MAP, panic, "kube-system")
        while updater.stops.panicking() is None:
            await asyncio.sleep(0.01)
        while not running.done():
            await cluster.clock.advance(10)  # type: ignore[attr-defined]
        assert len(await resized(cluster, pods, "300m")) == 1


async def test_a_resource_scaled_horizontally_is_not_touched(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2)
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "500m", "memory": "300Mi"}, lowerBound={"memory": "200Mi", "cpu": "400m"})
    hpa = {
        "metadata": {"name": "wide"},
        "spec": {
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        },
    }
    kind = kind_named("HorizontalPodAutoscaler")
    await cluster.admin.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **hpa}, "default")
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
    sizes = [await requests(cluster, pod) for pod in pods]
    assert {size["cpu"] for size in sizes} == {"100m"}
    assert "300Mi" in {size["memory"] for size in sizes}


async def test_single_replicas_are_skipped_and_the_reason_is_reported_once(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 1)
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    async with updating(cluster) as updater:
        for _ in range(3):
            await one_pass(cluster, updater)
        await updater.events.flush()
    events = await cluster.admin.list(kind_named("Event"), "default")
    reported = [event for event in events["items"] if event["reason"] == "PodLeftAlone"]
    assert (
        len(reported) == 1
        and reported[0].get("count", 1) == 1
        and "runs 1 of 1 replicas, fewer than the 2 (minReplicas)" in reported[0]["message"]
    )


async def test_a_replica_that_the_updater_evicted_itself_is_no_lack_of_replicas(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2)
    await cluster.vpa("web", "web", updatePolicy={"updateMode": "Recreate"})
    await cluster.recommend("web", {"cpu": "500m"}, **bounds("400m", "1"))
    await admission_lives(cluster)
    async with updating(cluster) as updater:
        await one_pass(cluster, updater)
        left = [pod for pod in pods if not await leaving(cluster, pod)]
        assert len(left) == 1
        async with asyncio.timeout(20):
            while sum(not pod["metadata"].get("deletionTimestamp") for pod in updater.pods) > 1:
                await asyncio.sleep(0.01)
        await one_pass(cluster, updater)
        story = updater.skip_reasons.of(("default", "web"))
    assert story is not None
    reported = story["pods"][left[0]]
    assert reported["reason"] == "AwaitingSuccessor"
    assert "1 of the 2 replicas of ReplicaSet web-1 was evicted by the updater" in reported["message"]


async def test_a_pod_within_bounds_is_not_said_to_be_at_its_target(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2, cpu="200m")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "247m"}, lowerBound={"cpu": "150m"}, upperBound={"cpu": "400m"})
    async with updating(cluster) as updater:
        await one_pass(cluster, updater, 3600)
        story = updater.skip_reasons.of(("default", "web"))
    assert story is not None
    reported = story["pods"][pods[0]]
    assert reported["reason"] == "WithinBounds"
    assert "requests 200m of cpu (target 247m, bounds 150m to 400m)" in reported["message"]
    assert "when it has run 12 h" in reported["message"]


async def test_a_pod_that_an_undo_keeps_large_is_not_said_to_be_at_its_target(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", 1, memory="800Mi", limits={"memory": "800Mi"})
    await cluster.vpa("web", "web", updatePolicy={**IN_PLACE, "minReplicas": 1})
    await cluster.recommend("web", {"memory": "500Mi"}, lowerBound={"memory": "400Mi"}, upperBound={"memory": "600Mi"})
    async with updating(cluster) as updater:
        updater.undo._floors[("default", "web")] = {("main", "memory"): (float("inf"), 800 << 20)}
        await one_pass(cluster, updater)
        story = updater.skip_reasons.of(("default", "web"))
    assert story is not None
    reported = story["pods"][pod]
    assert reported["reason"] == "HeldByUndo"
    assert "container main keeps 800Mi of memory instead of 500Mi" in reported["message"]


async def starve(cluster: Autoscaled, name: str, cpu: str) -> None:
    """The status that the recommender writes for a container that uses up its limit."""
    await cluster.recommend(name, {"cpu": cpu}, lowerBound={"cpu": cpu}, upperBound={"cpu": cpu})
    conditions = [{"type": kind, "status": "True"} for kind in ("CPUStarved", "RecommendationProvided")]
    await cluster.admin.patch(VPA, "default", name, {"status": {"conditions": conditions}}, "status")


async def test_between_passes_only_starved_pods_are_changed_and_none_is_evicted(cluster: Autoscaled) -> None:
    names = ("starved", "other", "recreated", "full")
    pods = {name: await cluster.deployment(name, 2, cpu="100m") for name in names}
    for name in names:
        mode = "Recreate" if name == "recreated" else "InPlaceOrRecreate"
        await cluster.vpa(name, name, updatePolicy={"updateMode": mode, "minReplicas": 1})
    await admission_lives(cluster)
    async with updating(cluster, replace(CONFIG, in_place_skip_disruption_budget=True)) as updater:
        await starve(cluster, "starved", "300m")
        await starve(cluster, "recreated", "300m")
        await starve(cluster, "full", "100")
        await cluster.recommend("other", {"cpu": "300m"}, lowerBound={"cpu": "300m"})
        async with asyncio.timeout(30):
            while len(updater.urgent._waiting) < 2:
                await asyncio.sleep(0.01)
        await updater.urgent_pass()
        assert not updater.urgent
    assert await resized(cluster, pods["starved"], "300m") == pods["starved"]
    assert await resized(cluster, [*pods["other"], *pods["recreated"]], "300m") == []
    assert not any([await leaving(cluster, pod) for name in names for pod in pods[name]])
