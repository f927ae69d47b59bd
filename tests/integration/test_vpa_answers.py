"""The recommender's responses over HTTP: sizes for existing and future pods, and the explanation of every number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD, VPA, VPA_CHECKPOINT
from podfit.cli.explaining.autoscalers import explain_vpa
from podfit.cli.explaining.recommender_queries import noted_url, recommender_explanation
from podfit.kit.clock import FakeClock
from podfit.vpa.observe.live_recommendations import HttpQuery
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.recommender.serving.explain import LISTENS, SETTINGS, explain_objects


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


async def test_an_unhandled_pod_gets_an_error_in_the_response(recommender: Recommender) -> None:
    stray = {"metadata": {"namespace": "default", "labels": {"app": "other"}}}
    status, answer = await ask(recommender, "POST", "/recommendationQuery", {"spec": {"pod": stray}})
    assert status == 200 and answer["status"] == {"error": "no VerticalPodAutoscaler controls this pod"}


async def test_the_webhook_takes_only_the_answer_of_the_pods_own_autoscaler(
    cluster: Autoscaled, recommender: Recommender
) -> None:
    pod = await cluster.admin.get(POD, "default", "web-1-0")
    asked = HttpQuery(f"http://127.0.0.1:{recommender.http.port}")
    try:
        own = await asked(pod, {"metadata": {"name": "web"}})
        another = await asked(pod, {"metadata": {"name": "younger"}})
    finally:
        await asked.close()
    assert own is not None and another is None


async def test_an_invalid_query_is_rejected(recommender: Recommender) -> None:
    bodies: list[Any] = [{}, {"spec": {}}, {"spec": {"pod": {}}}, [1]]
    for body in bodies:
        status, _ = await ask(recommender, "POST", "/recommendationQuery", body)
        assert status == 400


async def test_every_number_is_explained_and_the_explanation_ends_in_that_number(
    cluster: Autoscaled, recommender: Recommender
) -> None:
    _, story = await ask(recommender, "GET", "/explain/default/web")
    vpa = await cluster.admin.get(VPA, "default", "web")
    [entry] = vpa["status"]["recommendation"]["containerRecommendations"]
    reported = story["containers"]["main"]
    assert reported["samples"] == 10
    for resource in ("cpu", "memory"):
        for size in ("target", "lowerBound", "upperBound"):
            assert reported["resources"][resource][size]["value"] == entry[size][resource]
    steps = [step["what"] for step in reported["resources"]["memory"]["target"]["steps"]]
    assert steps[0].startswith("percentile 0.9") and steps[-1] == "lowered to the policy's maxAllowed"
    assert story["changes"] and story["recommender"] == "default"


async def test_the_same_story_comes_from_the_objects_alone(cluster: Autoscaled, recommender: Recommender) -> None:
    vpa = await cluster.admin.get(VPA, "default", "web")
    checkpoints = (await cluster.admin.list(VPA_CHECKPOINT, "default"))["items"]
    story = explain_objects(vpa, checkpoints)
    [entry] = vpa["status"]["recommendation"]["containerRecommendations"]
    assert story["containers"]["main"]["resources"]["cpu"]["target"]["value"] == entry["target"]["cpu"]


@pytest.mark.parametrize("batch", [False, True])
async def test_the_story_follows_the_recommenders_settings(cluster: Autoscaled, batch: bool) -> None:
    await cluster.deployment("web", pods=0)
    await cluster.pod("web-a", labels={"app": "web"}, restartPolicy="Never" if batch else "Always")
    cluster.use("web-a", "100m", "500000000")
    notes = {"vpa-post-processor.kubernetes.io/main_integerCPU": "true"}
    flags = ["--address=", "--recommendation-margin-fraction=0.5", "--round-memory-bytes=1000000"]
    flags += ["--container-recommendation-max-allowed-memory=700M", "--cpu-integer-post-processor-enabled"]
    flags += ["--pod-recommendation-min-cpu-millicores=1", "--memory-aggregation-interval=30s"]
    more: dict[str, Any] = {"recommenders": [{"name": "batch"}]} if batch else {}
    await cluster.vpa("web", "web", **more)
    await cluster.admin.patch(VPA, "default", "web", {"metadata": {"annotations": notes if not batch else {}}})
    made = Recommender(cluster.client, recommender_config(flags), None, cluster.clock)
    await made.start()
    for _ in range(3):
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await made.one_pass()
    await made.stop()
    vpa = await cluster.admin.get(VPA, "default", "web")
    [entry] = vpa["status"]["recommendation"]["containerRecommendations"]
    story = explain_objects(vpa, (await cluster.admin.list(VPA_CHECKPOINT, "default"))["items"])
    reported = story["containers"]["main"]["resources"]
    assert story["settings"]["recommendation-margin-fraction"] == 0.5
    for resource in ("cpu", "memory"):
        assert reported[resource]["target"]["value"] == entry["target"][resource]
    first = "mean of observed usage" if batch else "percentile 0.9 of observed usage"
    assert reported["cpu"]["target"]["steps"][0]["what"] == first
    assert reported["memory"]["target"]["steps"][-1]["what"] == "lowered to the cluster's maximum"


async def test_explain_shows_the_calculation_of_the_running_recommender(
    cluster: Autoscaled, recommender: Recommender
) -> None:
    vpa = await cluster.admin.get(VPA, "default", "web")
    checkpoints = (await cluster.admin.list(VPA_CHECKPOINT, "default"))["items"]
    assert noted_url(vpa, checkpoints) == f"http://127.0.0.1:{recommender.http.port}"
    lines, found = await explain_vpa(cluster.admin, vpa)
    reported = found["numbers"]["containers"]["main"]["resources"]["memory"]["target"]
    # Only the recommender knows it: a checkpoint lacks the peak of a window that has not ended.
    assert reported["value"] == "300Mi" and reported["steps"][0]["value"] == "511134537"
    assert not any("leave out" in line for line in lines)


async def test_a_recommender_without_checkpoints_is_asked_at_the_given_address(
    cluster: Autoscaled, recommender: Recommender
) -> None:
    vpa = await cluster.admin.get(VPA, "default", "web")
    for checkpoint in (await cluster.admin.list(VPA_CHECKPOINT, "default"))["items"]:
        await cluster.admin.delete(VPA_CHECKPOINT, "default", checkpoint["metadata"]["name"])
    assert any("--recommender URL" in line for line in (await explain_vpa(cluster.admin, vpa))[0])
    address = f"http://127.0.0.1:{recommender.http.port}/"
    lines, found = await explain_vpa(cluster.admin, vpa, recommender=address)
    assert found["numbers"]["containers"] and not any("No checkpoint" in line for line in lines)


async def test_addresses_of_other_machines_are_not_followed() -> None:
    vpa = {"metadata": {"name": "web", "namespace": "default"}}
    for note in ('{"listens": "http://10.0.0.1:80"}', '{"listens": "file:///etc/passwd"}', "{", "[]", "{}"):
        meta = {"annotations": {SETTINGS: note}}
        assert noted_url(vpa, [{"metadata": meta, "spec": {"vpaObjectName": "web"}}]) == ""


async def test_settings_that_go_back_to_normal_are_no_longer_noted(cluster: Autoscaled) -> None:
    [pod] = await cluster.deployment("web", 1)
    cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    for flags, noted in ((["--target-cpu-percentile=0.5"], True), ([], False)):
        made = Recommender(cluster.client, recommender_config(["--address=", *flags]), None, cluster.clock)
        await made.start()
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await made.one_pass()
        await made.stop()
        checkpoint = await cluster.admin.get(VPA_CHECKPOINT, "default", "web-main")
        assert (SETTINGS in (checkpoint["metadata"].get("annotations") or {})) is noted


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


async def test_the_numbers_of_a_starved_container_are_explained(cluster: Autoscaled) -> None:
    [pod] = await cluster.deployment("busy", 1, cpu="300m", limits={"cpu": "300m", "memory": "1Gi"})
    cluster.use(pod, "299m", "100000000")
    await cluster.vpa("busy", "busy", updatePolicy={"updateMode": "InPlaceOrRecreate"})
    made = Recommender(cluster.client, RecommenderConfig(address="127.0.0.1:0"), None, cluster.clock)
    await made.start()
    await cluster.clock.advance(60)  # type: ignore[attr-defined]
    await made.one_pass()
    try:
        _, story = await ask(made, "GET", "/explain/default/busy")
    finally:
        await made.stop()
    vpa = await cluster.admin.get(VPA, "default", "busy")
    [given] = vpa["status"]["recommendation"]["containerRecommendations"]
    explained = story["containers"]["main"]["resources"]["cpu"]
    assert explained["target"]["steps"][-1] == {
        "what": "raised: the container uses up its CPU limit",
        "value": given["target"]["cpu"],
    }
    assert {size: explained[size]["value"] for size in ("target", "lowerBound", "upperBound")} == {
        size: given[size]["cpu"] for size in ("target", "lowerBound", "upperBound")
    }


async def test_pods_that_have_not_started_are_said_to_be_pending_and_why(cluster: Autoscaled) -> None:
    [pod] = await cluster.deployment("late", 1, node="")
    found = await cluster.admin.get(POD, "default", pod)
    owner = found["metadata"]["ownerReferences"][0]
    gate = [{"name": "podfit.dev/requires-vpa"}]
    await cluster.pod("held", labels={"app": "late"}, owner=owner, node="", schedulingGates=gate)
    vpa = await cluster.vpa("late", "late")
    lines, _ = await explain_vpa(cluster.admin, vpa)
    text = "\n".join(lines)
    assert "(2 pods, 2 of them Pending)" in text
    assert "Pod held is held back by scheduling gate podfit.dev/requires-vpa." in text
    assert "None of the pods has started; the recommender matches pods that have." in text


async def test_a_hanging_recommender_is_distinguished_from_a_stopped_one(
    cluster: Autoscaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr("podfit.cli.explaining.recommender_queries.TIMEOUT_S", 0.1)
    vpa = await cluster.vpa("web", "web")
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    note = {"metadata": {"annotations": {SETTINGS: json.dumps({LISTENS: url})}}, "spec": {"vpaObjectName": "web"}}
    _, hangs = await recommender_explanation(cluster.admin, vpa, [note])
    server.close()
    _, gone = await recommender_explanation(cluster.admin, vpa, [note])
    assert hangs == f"The recommender at {url} did not answer within 0.1 s: it is busy or hangs."
    assert gone == f"The recommender at {url} does not answer: nothing listens there."


@pytest.mark.parametrize("pods", [1, 4])
async def test_smaller_groups_get_a_larger_margin_if_configured(cluster: Autoscaled, pods: int) -> None:
    for pod in await cluster.deployment("web", pods):
        cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    targets = {}
    for margin in ("0", "0.4"):
        flags = ["--address=127.0.0.1:0", f"--small-group-margin={margin}"]
        made = Recommender(cluster.client, recommender_config(flags), None, cluster.clock)
        await made.start()
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await made.one_pass()
        [entry] = made.recommendation_of(made.cluster.vpas["default", "web"])["containerRecommendations"]
        _, story = await ask(made, "GET", "/explain/default/web")
        await made.stop()
        targets[margin] = Quantity.parse(entry["target"]["memory"]).value
        assert story["containers"]["main"]["resources"]["memory"]["target"]["value"] == entry["target"]["memory"]
    assert targets["0.4"] == int(targets["0"] * (1 + 0.4 / pods))
