"""A changed policy reaches the pods of an autoscaler a few at a time if its annotation requests that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.cluster.expect import all_become
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.kit.clock import FakeClock, rfc3339
from podfit.vpa.model.changing.rolling import ROLLING, sized_under
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

DEPLOYMENT = kind_named("Deployment")
CONFIG = UpdaterConfig(address="", scale_down_delay=0, scale_down_step=1.0, in_place_skip_disruption_budget=True)
IN_PLACE = {"updateMode": "InPlaceOrRecreate", "minReplicas": 1}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


@pytest.fixture
async def updater(cluster: Autoscaled) -> AsyncIterator[Updater]:
    made = Updater(cluster.client, CONFIG, cluster.clock)
    await made.start()
    yield made
    await made.stop()


async def workload_of(cluster: Autoscaled, rolling: str | None, pods: int = 4) -> list[str]:
    """Pods of 800m under an autoscaler that recommends as much."""
    names = await cluster.deployment("web", pods, cpu="800m", memory="300Mi")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    notes = {ROLLING: rolling} if rolling is not None else {}
    await cluster.admin.patch(VPA, "default", "web", {"metadata": {"annotations": notes}})
    return names


async def change_policy(cluster: Autoscaled, most: str) -> None:
    """Sets maxAllowed, and a recommendation of as much."""
    policies = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": most}}]}
    await cluster.admin.patch(VPA, "default", "web", {"spec": {"resourcePolicy": policies}})
    await cluster.recommend("web", {"cpu": most}, lowerBound={"cpu": most}, upperBound={"cpu": most})


async def ends(cluster: Autoscaled, pod: str, reason: str) -> None:
    """Reports that the pod's container terminated with this reason and runs again."""
    at, found = rfc3339(cluster.clock.now()), await cluster.admin.get(POD, "default", pod)
    last = {"terminated": {"reason": reason, "exitCode": 137, "startedAt": at, "finishedAt": at}}
    resources = found["spec"]["containers"][0]["resources"]
    await cluster.running("default", pod, resources=resources, restartCount=1, lastState=last)


async def passes(cluster: Autoscaled, updater: Updater, number: int = 1, seconds: float = 61) -> None:
    for _ in range(number):
        await cluster.clock.advance(seconds)  # type: ignore[attr-defined]
        await updater.one_pass()


async def sizes(cluster: Autoscaled, pods: list[str]) -> list[str]:
    found = [await cluster.admin.get(POD, "default", pod) for pod in pods]
    return [obj["spec"]["containers"][0]["resources"]["requests"]["cpu"] for obj in found]


@pytest.mark.parametrize(("rolling", "steps"), [(None, [4]), ("1", [1, 2, 3, 4]), ("50%", [2, 4]), ("9", [4])])
async def test_a_changed_policy_reaches_as_many_pods_at_a_time_as_wanted(
    cluster: Autoscaled, updater: Updater, rolling: str | None, steps: list[int]
) -> None:
    pods = await workload_of(cluster, rolling)
    await change_policy(cluster, "500m")
    for expected in steps:
        await passes(cluster, updater)
        assert (await sizes(cluster, pods)).count("500m") == expected


async def test_a_pod_waits_until_the_one_before_it_has_been_ready_for_a_while(
    cluster: Autoscaled, updater: Updater
) -> None:
    pods = await workload_of(cluster, "1", 2)
    await change_policy(cluster, "500m")
    await passes(cluster, updater, 4, seconds=15)
    assert (await sizes(cluster, pods)).count("500m") == 1
    why: Any = updater.skip_reasons.of(("default", "web"))
    assert "RollingOut" in str(why) and "of the pods at a time get it" in str(why)
    await passes(cluster, updater, 1, seconds=15)
    assert (await sizes(cluster, pods)).count("500m") == 2


async def test_a_failure_under_the_changed_policy_spares_the_other_pods(cluster: Autoscaled, updater: Updater) -> None:
    pods = await workload_of(cluster, "1")
    await change_policy(cluster, "500m")
    await passes(cluster, updater)
    changed = (await sizes(cluster, pods)).index("500m")
    await cluster.clock.advance(5)  # type: ignore[attr-defined]
    await ends(cluster, pods[changed], "Error")
    await passes(cluster, updater, 5)
    assert (await sizes(cluster, pods)).count("500m") == 1
    assert f"container main of pod {pods[changed]} ended (Error)" in str(updater.skip_reasons.of(("default", "web")))
    await change_policy(cluster, "700m")
    await passes(cluster, updater, 8)
    assert await sizes(cluster, pods) == ["700m"] * 4, "another policy is another rollout"


async def test_a_pod_that_runs_out_of_memory_does_not_wait_for_others(cluster: Autoscaled, updater: Updater) -> None:
    pods = await workload_of(cluster, "1", 2)
    await change_policy(cluster, "500m")
    for pod in pods:
        await ends(cluster, pod, "OOMKilled")
    await passes(cluster, updater)
    assert await sizes(cluster, pods) == ["500m", "500m"]


async def test_further_recommendations_under_the_same_policy_reach_all_pods_at_once(
    cluster: Autoscaled, updater: Updater
) -> None:
    pods = await workload_of(cluster, "1")
    await change_policy(cluster, "500m")
    await passes(cluster, updater, 4)
    await cluster.recommend("web", {"cpu": "400m"}, lowerBound={"cpu": "400m"}, upperBound={"cpu": "400m"})
    await passes(cluster, updater)
    assert await sizes(cluster, pods) == ["400m"] * 4


async def test_on_a_whole_cluster_a_changed_minimum_reaches_one_pod_after_the_other(tmp_path: Path) -> None:
    """Three pods, each of which must be ready for two seconds before the next one gets the new minimum."""
    flags = {
        "recommender": ["--recommender-interval=200ms"],
        "updater": ["--updater-interval=200ms", "--rolling-settle=2s"],
    }
    async with Whole(tmp_path, vpa=True, vpa_flags=flags) as whole:
        await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 3, pod=pod_spec("100m", "300Mi")))
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        policies = {"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "350m"}}]}
        spec = {"targetRef": reference, "updatePolicy": IN_PLACE, "resourcePolicy": policies}
        meta = {"name": "web", "annotations": {ROLLING: "1"}}
        vpa = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": meta, "spec": spec}
        await whole.client.create(VPA, vpa, "default")

        def grown(pods: list[Any]) -> bool:
            found = [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods]
            return found == ["350m"] * 3 and all(sized_under(pod)[0] for pod in pods)

        pods = await all_become(whole.client, POD, "default", grown, labelSelector="app=web")
    instants = sorted(sized_under(pod)[1] for pod in pods)
    assert all(later - earlier >= 2.0 for earlier, later in pairwise(instants))
