"""What the recommender answers over HTTP: sizes for pods that exist or will, and the story behind every number."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from podfit.api.kinds import POD, VPA, VPA_CHECKPOINT
from podfit.kit.clock import FakeClock
from podfit.testing.autoscaling import Autoscaled, autoscaled
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.explain import explain_objects
from podfit.vpa.recommender.loop import Recommender


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


@pytest.fixture
async def recommender(cluster: Autoscaled) -> AsyncIterator[Recommender]:
    for pod in await cluster.deployment("web", 2):
        cluster.use(pod, "100m", "500000000")
    limits = {"containerPolicies": [{"containerName": "main", "maxAllowed": {"memory": "300Mi"}}]}
    await cluster.vpa("web", "web", resourcePolicy=limits)
    made = Recommender(cluster.client, RecommenderConfig(address="127.0.0.1:0"), None, cluster.clock)
    await made.start()
    for _ in range(5):
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await made.one_pass()
    yield made
    await made.stop()


async def ask(recommender: Recommender, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{recommender.http.port}{path}"
        async with session.request(method, url, json=body) as answer:
            text = await answer.text()
            return answer.status, await answer.json() if text.startswith("{") else text


async def test_an_existing_pod_gets_its_autoscalers_recommendation(
    cluster: Autoscaled, recommender: Recommender
) -> None:
    pod = await cluster.admin.get(POD, "default", "web-1-0")
    status, answer = await ask(recommender, "POST", "/recommendationQuery", {"spec": {"pod": pod}})
    assert status == 200 and answer["kind"] == "RecommendationQuery"
    [entry] = answer["status"]["recommendation"]["containerRecommendations"]
    assert entry["target"] == {"cpu": "126m", "memory": "300Mi"}


async def test_a_pod_that_does_not_exist_yet_is_found_by_its_labels(recommender: Recommender) -> None:
    future = {"metadata": {"namespace": "default", "labels": {"app": "web"}}, "spec": {"containers": []}}
    _, answer = await ask(recommender, "POST", "/recommendationQuery", {"spec": {"pod": future}})
    assert answer["status"]["recommendation"]["containerRecommendations"]


async def test_a_pod_nobody_cares_for_gets_an_error_in_the_answer(recommender: Recommender) -> None:
    stray = {"metadata": {"namespace": "default", "labels": {"app": "other"}}}
    status, answer = await ask(recommender, "POST", "/recommendationQuery", {"spec": {"pod": stray}})
    assert status == 200 and answer["status"] == {"error": "no VerticalPodAutoscaler controls this pod"}


async def test_what_is_no_query_is_refused(recommender: Recommender) -> None:
    for body in ({}, {"spec": {}}, {"spec": {"pod": {}}}, [1]):
        status, _ = await ask(recommender, "POST", "/recommendationQuery", body)
        assert status == 400


async def test_every_number_is_explained_and_the_explanation_ends_in_that_number(
    cluster: Autoscaled, recommender: Recommender
) -> None:
    _, story = await ask(recommender, "GET", "/explain/default/web")
    vpa = await cluster.admin.get(VPA, "default", "web")
    [entry] = vpa["status"]["recommendation"]["containerRecommendations"]
    told = story["containers"]["main"]
    assert told["samples"] == 10
    for resource in ("cpu", "memory"):
        for size in ("target", "lowerBound", "upperBound"):
            assert told["resources"][resource][size]["value"] == entry[size][resource]
    steps = [step["what"] for step in told["resources"]["memory"]["target"]["steps"]]
    assert steps[0].startswith("percentile 0.9") and steps[-1] == "lowered to the policy's maxAllowed"
    assert story["changes"] and story["recommender"] == "default"


async def test_the_same_story_comes_from_the_objects_alone(cluster: Autoscaled, recommender: Recommender) -> None:
    vpa = await cluster.admin.get(VPA, "default", "web")
    checkpoints = (await cluster.admin.list(VPA_CHECKPOINT, "default"))["items"]
    story = explain_objects(vpa, checkpoints)
    [entry] = vpa["status"]["recommendation"]["containerRecommendations"]
    assert story["containers"]["main"]["resources"]["cpu"]["target"]["value"] == entry["target"]["cpu"]


async def test_an_unknown_autoscaler_is_not_explained(recommender: Recommender) -> None:
    status, _ = await ask(recommender, "GET", "/explain/default/nobody")
    assert status == 404


async def test_metrics_and_health_are_served(recommender: Recommender) -> None:
    _, text = await ask(recommender, "GET", "/metrics")
    assert 'vpa_recommender_recommendation{bound="target",container="main",namespace="default"' in text
    for name in (
        "vpa_recommender_vpa_objects_count",
        "vpa_recommender_execution_latency_seconds",
        "vpa_recommender_aggregate_container_states_count",
        "vpa_recommender_metric_server_responses",
    ):
        assert name in text
    assert await ask(recommender, "GET", "/health-check") == (200, "OK")
