"""Effects of flags on running components: the source of usage, request rates, and further endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from tests.support.cluster.autoscaling import Autoscaled, Metered, autoscaled

from podfit.api.registry.kinds import POD, VPA
from podfit.client import Client
from podfit.client.transport import ClientRequest, Reply
from podfit.kit.clock import FakeClock, rfc3339
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.serve.requests import measured


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


class External(Metered):
    """Answers for the external metrics API."""

    asked: list[tuple[str, str]] = []

    async def request(self, ask: ClientRequest) -> Reply:
        if not ask.path.startswith("/apis/external.metrics.k8s.io/"):
            return await super().request(ask)
        self.asked.append((ask.path, str((ask.query or {})["labelSelector"])))
        item = {"metricLabels": {"name": "main"}, "timestamp": rfc3339(self._clock.now()), "value": "300m"}
        other = {"metricLabels": {}, "timestamp": "2020-01-01T00:00:00Z", "value": "9"}
        return Reply(200, json.dumps({"kind": "ExternalMetricValueList", "items": [item, other]}).encode())


async def test_usage_may_come_from_external_metrics(cluster: Autoscaled) -> None:
    [pod] = await cluster.deployment("web", 1)
    await cluster.vpa("web", "web")
    flags = ["--address=", "--use-external-metrics", "--external-metrics-cpu-metric=pod_cpu"]
    transport = External(cluster.admin.transport, cluster.clock)
    recommender = Recommender(Client(transport), recommender_config(flags), None, cluster.clock)
    await recommender.start()
    for _ in range(3):
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await recommender.one_pass()
    state = recommender.cluster.merged(recommender.cluster.vpas["default", "web"])["main"]
    await recommender.stop()
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/pod_cpu"
    assert set(transport.asked) == {(path, f"app=web,pod={pod}")}
    assert state.count == 3 and state.memory.empty
    vpa = await cluster.admin.get(VPA, "default", "web")
    assert vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "350m"


async def test_requests_are_paced_when_the_flags_say_so(cluster: Autoscaled) -> None:
    clock: Any = cluster.clock
    config = AdmissionConfig(kube_api_qps=2.0, kube_api_burst=3.0)
    client = measured(cluster.client, CollectorRegistry(), config, clock)
    for _ in range(3):
        await client.list(POD, "default")
    fourth = asyncio.ensure_future(client.list(POD, "default"))
    await clock.advance(0.4)
    assert not fourth.done()
    await clock.advance(0.2)
    assert (await fourth)["items"] == []


async def test_metrics_and_profiles_are_served(cluster: Autoscaled) -> None:
    [pod] = await cluster.deployment("web", 1)
    cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    config = RecommenderConfig(address="127.0.0.1:0", profiling=True)
    recommender = Recommender(cluster.client, config, None, cluster.clock)
    await recommender.start()
    for _ in range(3):
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await recommender.one_pass()
    base = f"http://127.0.0.1:{recommender.http.port}"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{base}/metrics") as answer:
            text = await answer.text()
        async with session.get(f"{base}/debug/pprof/profile?seconds=0") as answer:
            profile = await answer.text()
        async with session.get(f"{base}/debug/pprof/tasks") as answer:
            tasks = await answer.text()
    await recommender.stop()
    assert "# TYPE vpa_recommender_metric_server_responses counter\n" in text
    assert 'vpa_quality_cpu_recommendations_cores_count{update_mode=""} 2.0' in text
    assert 'rest_client_requests_total{code="200",host="in-process",method="PATCH"}' in text
    assert (
        'vpa_quality_relative_recommendation_changes_count{resource="cpu",update_mode="",vpa_size_log2="0"} 2' in text
    )
    assert "function calls" in profile and "Stack for" in tasks
