"""Without samples nothing is recommended or changed, and without new samples recommendations do not change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.cluster.loops import EAGER

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD, VPA, VPA_CHECKPOINT
from podfit.cli.explaining.autoscalers import explain_vpa
from podfit.kit.clock import FakeClock, rfc3339
from podfit.vpa.history.base import History
from podfit.vpa.history.local import LocalHistory
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.loop import Updater

CONFIG = RecommenderConfig(address="")
IN_PLACE = {"updateMode": "InPlaceOrRecreate"}
DAY = 86400


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


@asynccontextmanager
async def recommending(
    cluster: Autoscaled, config: RecommenderConfig = CONFIG, history: History | None = None
) -> AsyncIterator[Recommender]:
    made = Recommender(cluster.client, config, history, cluster.clock)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def passes(cluster: Autoscaled, part: Recommender | Updater, number: int = 1, seconds: float = 60) -> None:
    for _ in range(number):
        await cluster.clock.advance(seconds)  # type: ignore[attr-defined]
        await part.one_pass()


async def updated(cluster: Autoscaled, number: int = 3) -> None:
    """Passes of an updater that acts as early as permitted."""
    updater = Updater(cluster.client, EAGER, cluster.clock)
    await updater.start()
    try:
        await passes(cluster, updater, number)
    finally:
        await updater.stop()


async def status_of(cluster: Autoscaled, name: str = "web") -> Any:
    return (await cluster.admin.get(VPA, "default", name)).get("status") or {}


def condition(status: Any, type: str) -> Any:
    return next((known for known in status.get("conditions") or [] if known["type"] == type), {"status": "absent"})


def targets(status: Any) -> dict[str, Any]:
    entries = (status.get("recommendation") or {}).get("containerRecommendations") or []
    return {entry["containerName"]: entry["target"] for entry in entries}


async def requests(cluster: Autoscaled, pod: str) -> list[Any]:
    found = await cluster.admin.get(POD, "default", pod)
    return [container["resources"].get("requests") for container in found["spec"]["containers"]]


async def test_a_cluster_without_metrics_gets_no_recommendation_and_no_resize(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2, cpu="500m", memory="1Gi")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    cluster.metered.gone = True
    before = [await cluster.admin.get(POD, "default", pod) for pod in pods]
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 10)
        await updated(cluster)
    status = await status_of(cluster)
    assert not status["recommendation"]
    provided, metrics = condition(status, "RecommendationProvided"), condition(status, "MetricsUnavailable")
    assert (provided["status"], provided["reason"]) == ("False", "NoSamples")
    assert "No sample of container main has arrived since 2023-11-14T22:1" in provided["message"]
    assert (metrics["status"], metrics["reason"]) == ("True", "MetricsApiFailed")
    assert (
        "has not answered since 2023-11-14T22:1" in metrics["message"]
        and "metrics are away. No sample" in metrics["message"]
    )
    assert condition(status, "LowConfidence")["status"] == "absent"
    assert [await cluster.admin.get(POD, "default", pod) for pod in pods] == before


async def test_with_the_flag_the_minimum_is_recommended_without_samples_as_upstream_does(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2, cpu="500m", memory="1Gi")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    cluster.metered.gone = True
    async with recommending(cluster, recommender_config(["--recommend-without-samples"], CONFIG)) as recommender:
        await passes(cluster, recommender, 2)
        await updated(cluster)
    assert targets(await status_of(cluster)) == {"main": {"cpu": "25m", "memory": "250Mi"}}
    assert await requests(cluster, pods[0]) == [{"cpu": "25m", "memory": "250Mi"}]


async def test_metrics_that_never_mention_the_pods_are_named_after_some_minutes(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 1)
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        started = condition(await status_of(cluster), "RecommendationProvided")
        assert (started["status"], started["reason"]) == ("False", "NoSamples")
        assert condition(await status_of(cluster), "MetricsUnavailable")["status"] == "absent"
        await passes(cluster, recommender, 6)
        metrics = condition(await status_of(cluster), "MetricsUnavailable")
    assert (metrics["status"], metrics["reason"]) == ("True", "NoSamples")
    assert metrics["message"] == started["message"], "the time it names is the time the container was first seen"


async def test_a_status_without_samples_is_written_once(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 1)
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 8)
        settled = (await cluster.admin.get(VPA, "default", "web"))["metadata"]["resourceVersion"]
        await passes(cluster, recommender, 8)
    assert (await cluster.admin.get(VPA, "default", "web"))["metadata"]["resourceVersion"] == settled


async def two_containers(cluster: Autoscaled) -> str:
    await cluster.deployment("web", 0)
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    containers = [{"name": name, "image": "i", "resources": resources} for name in ("main", "side")]
    pod = await cluster.pod("web-2", labels={"app": "web"}, containers=containers, resources=resources)
    return str(pod["metadata"]["name"])


async def test_a_container_never_seen_gets_nothing_while_its_sibling_does(cluster: Autoscaled) -> None:
    cluster.use(await two_containers(cluster), "100m", "500000000")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 8)
    status = await status_of(cluster)
    assert targets(status) == {"main": {"cpu": "126m", "memory": "587804717"}}
    assert condition(status, "RecommendationProvided")["status"] == "True"
    metrics = condition(status, "MetricsUnavailable")
    assert (metrics["status"], metrics["reason"]) == ("True", "NoSamples")
    assert "container side" in metrics["message"] and "container main" not in metrics["message"]


async def test_a_resource_that_is_not_reported_is_not_recommended(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", 1)
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        for _ in range(8):
            cluster.metered.extra = [
                {
                    "metadata": {"namespace": "default", "name": pod},
                    "timestamp": rfc3339(cluster.clock.now() + 60),
                    "containers": [{"name": "main", "usage": {"cpu": "100m"}}],
                }
            ]
            await passes(cluster, recommender)
    status = await status_of(cluster)
    assert targets(status) == {"main": {"cpu": "126m"}}
    assert "No memory sample of container main" in condition(status, "MetricsUnavailable")["message"]


async def test_numbers_stay_for_weeks_when_metrics_stop_and_follow_when_they_return(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2)
    for pod in pods:
        cluster.use(pod, "2", "2000000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 30)
        last = rfc3339(cluster.clock.now())
        known = (await status_of(cluster))["recommendation"]
        cluster.metered.usage.clear()
        await passes(cluster, recommender, 30, DAY)
        status = await status_of(cluster)
        assert status["recommendation"] == known
        metrics = condition(status, "MetricsUnavailable")
        assert (metrics["status"], metrics["reason"]) == ("True", "SamplesStopped")
        words = f"No sample of container main has arrived since {last}: its recommendation is frozen."
        assert metrics["message"] == words
        for pod in pods:
            cluster.use(pod, "100m", "500000000")
        await passes(cluster, recommender, 2)
    status = await status_of(cluster)
    assert targets(status)["main"]["cpu"] == "126m"
    assert condition(status, "MetricsUnavailable")["status"] == "False"


async def test_with_the_flag_samples_expire_without_metrics_as_upstreams_do(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web", 1):
        cluster.use(pod, "2", "2000000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster, recommender_config(["--expire-samples-without-metrics"], CONFIG)) as recommender:
        await passes(cluster, recommender, 3)
        cluster.metered.usage.clear()
        await passes(cluster, recommender, 10, DAY)
    assert not targets(await status_of(cluster))


@pytest.mark.parametrize("away", [True, False], ids=["the API is away", "the API lists no pods"])
async def test_a_recommender_restarted_without_metrics_keeps_the_numbers(cluster: Autoscaled, away: bool) -> None:
    """A checkpoint lacks the memory peak of the day; only the published recommendation includes it."""
    for pod in await cluster.deployment("web", 2):
        cluster.use(pod, "2", "2000000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 30)
    known = (await status_of(cluster))["recommendation"]
    cluster.metered.usage.clear()
    cluster.metered.gone = away
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 3)
        assert (await status_of(cluster))["recommendation"] == known
        await passes(cluster, recommender, 20, DAY)
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 3)
    assert (await status_of(cluster))["recommendation"] == known


async def test_numbers_that_stay_obey_a_policy_that_changes(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web", 2):
        cluster.use(pod, "2", "2000000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 30)
    cluster.metered.gone = True
    policies = [{"containerName": "*", "maxAllowed": {"cpu": "1"}, "controlledResources": ["cpu"]}]
    await cluster.admin.patch(VPA, "default", "web", {"spec": {"resourcePolicy": {"containerPolicies": policies}}})
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 3)
    assert targets(await status_of(cluster)) == {"main": {"cpu": "1"}}


async def test_a_local_history_outlives_weeks_without_metrics(cluster: Autoscaled, tmp_path: Path) -> None:
    for pod in await cluster.deployment("web", 2):
        cluster.use(pod, "2", "2000000000")
    await cluster.vpa("web", "web")

    def history() -> LocalHistory:
        return LocalHistory(tmp_path / "history.db", clock=cluster.clock)

    async with recommending(cluster, history=history()) as recommender:
        await passes(cluster, recommender, 30)
        cluster.metered.usage.clear()
        await passes(cluster, recommender, 20, DAY)
    known = (await status_of(cluster))["recommendation"]
    async with recommending(cluster, history=history()) as recommender:
        await passes(cluster, recommender, 2)
        assert sum(state.count for state in recommender.cluster.aggregates.values()) == 60
    assert (await status_of(cluster))["recommendation"] == known


async def test_numbers_from_no_samples_that_another_recommender_left_are_withdrawn(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2, cpu="500m", memory="1Gi")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    smallest = {"cpu": "25m", "memory": "250Mi"}
    await cluster.recommend("web", smallest, lowerBound=smallest, upperBound=smallest, uncappedTarget=smallest)
    checkpoint = {
        "apiVersion": VPA_CHECKPOINT.api_version,
        "kind": VPA_CHECKPOINT.kind,
        "metadata": {"name": "web-main"},
        "spec": {"vpaObjectName": "web", "containerName": "main"},
        "status": {"version": "v3", "cpuHistogram": {}, "memoryHistogram": {}},
    }
    await cluster.admin.create(VPA_CHECKPOINT, checkpoint, "default")
    cluster.metered.gone = True
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        await updated(cluster)
    status = await status_of(cluster)
    assert not targets(status) and condition(status, "RecommendationProvided")["status"] == "False"
    assert await requests(cluster, pods[0]) == [{"cpu": "500m", "memory": "1Gi"}]


async def test_numbers_of_a_history_that_has_become_empty_stay(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 1)
    await cluster.vpa("web", "web")
    sizes = {"cpu": "800m", "memory": "700Mi"}
    await cluster.recommend("web", sizes, lowerBound=sizes, upperBound=sizes, uncappedTarget=sizes)
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 8)
    status = await status_of(cluster)
    assert targets(status) == {"main": sizes}
    assert condition(status, "RecommendationProvided")["status"] == "True"
    assert condition(status, "MetricsUnavailable")["message"].endswith("its recommendation is frozen.")


async def test_the_updater_leaves_pods_alone_whose_recommendation_is_withdrawn(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 2, cpu="500m", memory="1Gi")
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    await cluster.recommend("web", {"cpu": "25m", "memory": "250Mi"})
    withdrawn = {"conditions": [{"type": "RecommendationProvided", "status": "False"}]}
    await cluster.admin.patch(VPA, "default", "web", {"status": withdrawn}, "status")
    await updated(cluster)
    assert await requests(cluster, pods[0]) == [{"cpu": "500m", "memory": "1Gi"}]


async def test_an_oom_kill_alone_raises_memory_and_leaves_cpu(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", 1, memory="500Mi")
    await cluster.vpa("web", "web")
    cluster.metered.gone = True
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        at = rfc3339(cluster.clock.now())
        ended = {"reason": "OOMKilled", "exitCode": 137, "startedAt": at, "finishedAt": at}
        resources = {"requests": {"cpu": "100m", "memory": "500Mi"}}
        await cluster.running("default", pod, restartCount=1, lastState={"terminated": ended}, resources=resources)
        await passes(cluster, recommender)
    (target,) = targets(await status_of(cluster)).values()
    assert set(target) == {"memory"}
    assert Quantity.parse(target["memory"]).value > 600 * 2**20


async def test_low_confidence_names_only_containers_with_numbers(cluster: Autoscaled) -> None:
    cluster.use(await two_containers(cluster), "100m", "500000000")
    await cluster.vpa("web", "web")
    model = replace(CONFIG.model, confidence_interval_cpu=60, confidence_interval_memory=60, start_from_similar="off")
    quick = replace(CONFIG, model=model)
    async with recommending(cluster, quick) as recommender:
        await passes(cluster, recommender, 5)
    assert condition(await status_of(cluster), "LowConfidence")["status"] == "False"


async def test_explain_says_what_has_no_samples_and_since_when(cluster: Autoscaled) -> None:
    cluster.use(await two_containers(cluster), "100m", "500000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 8)
    reported = "\n".join((await explain_vpa(cluster.admin, await cluster.admin.get(VPA, "default", "web")))[0])
    assert "MetricsUnavailable=True (NoSamples: No sample of container side has arrived since 2023-11-14" in reported
    assert "Container side: no samples\n  cpu and memory: no recommendation without samples" in reported
    assert "Container main: 8 samples from" in reported
