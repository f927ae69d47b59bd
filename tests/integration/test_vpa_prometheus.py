"""A real Prometheus with eight days of history: what the recommender reads from it at start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.servers.prometheus import Prometheus, backfill, installed

from podfit.api.registry.kinds import VPA
from podfit.kit.clock import FakeClock
from podfit.vpa.history.base import Batch, HistoryUnavailable
from podfit.vpa.history.prometheus import PrometheusHistory
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender

DAYS, STEP, CONTAINERS = 8, 900, 4
pytestmark = pytest.mark.skipif(not installed(), reason="prometheus and promtool are not installed")


def _open_metrics(end: int) -> Iterator[str]:
    """Four web pods at 0.5 cores and 300 MB, named as cAdvisor and kube-state-metrics do; one of them is killed."""
    instants = range(end - DAYS * 86400, end + 1, STEP)
    series = [f'cluster="a",namespace="default",pod="web-1-{number}"' for number in range(CONTAINERS)]
    yield "# TYPE container_cpu_usage_seconds counter"
    for row in series:
        for at in instants:
            yield f'container_cpu_usage_seconds_total{{{row},container="main"}} {0.5 * (at - instants[0])} {at}'
    other = 'cluster="b",namespace="default",pod="other",container="main"'
    for at in instants:
        yield f"container_cpu_usage_seconds_total{{{other}}} {at * 9} {at}"
    yield "# TYPE container_memory_working_set_bytes gauge"
    for row in series:
        for at in instants:
            yield f'container_memory_working_set_bytes{{{row},container="main"}} 3e+08 {at}'
    yield "# TYPE container_oom_events counter"
    for at in instants:
        yield f'container_oom_events_total{{{series[0]},container="main"}} {int(at > end - 86400)} {at}'
    yield "# TYPE kube_pod_labels gauge"
    for row in series:
        for at in instants:
            yield f'kube_pod_labels{{{row},label_app="web",label_app_kubernetes_io_part="x"}} 1 {at}'
    yield "# EOF"


@pytest.fixture(scope="module")
def backfilled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A folder with the blocks, and the time at which they end."""
    folder = tmp_path_factory.mktemp("prometheus")
    end = int(time.time()) // STEP * STEP
    backfill(folder, _open_metrics(end))
    return folder, end


@pytest.fixture
async def prometheus(backfilled: tuple[Path, int]) -> AsyncIterator[Prometheus]:
    made = Prometheus(backfilled[0])
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def cluster(tmp_path: Path, backfilled: tuple[Path, int]) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock(float(backfilled[1]))) as made:
        yield made


def config(url: str, **more: object) -> PrometheusConfig:
    base = PrometheusConfig(
        prometheus_address=url, prometheus_cluster_label="cluster=a", prometheus_queries_per_second=0
    )
    return replace(base, **more)  # type: ignore[arg-type]


class Gathered:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def take(self, batch: Batch) -> None:
        self.batches.append(batch)

    @property
    def samples(self) -> int:
        return sum(len(batch.times) for batch in self.batches)


async def test_the_plan_names_queries_and_expects_about_as_many_samples_as_come(
    prometheus: Prometheus, backfilled: tuple[Path, int]
) -> None:
    history = PrometheusHistory(config(prometheus.url))
    plan = await history.plan(backfilled[1])
    sink = Gathered()
    await history.load(sink, backfilled[1])
    await history.close()
    assert 'pod=~".+", container!="POD", container!=""' in plan.memory_query
    assert 'cluster="a"' in plan.cpu_query and "[1h]" in plan.cpu_query
    assert len(plan.parts) == DAYS + 1 or len(plan.parts) == DAYS
    assert plan.expected * 0.9 <= sink.samples <= plan.expected * 1.1


async def test_large_answers_are_requested_in_parts(prometheus: Prometheus, backfilled: tuple[Path, int]) -> None:
    history = PrometheusHistory(config(prometheus.url, prometheus_max_samples=20))
    sink = Gathered()
    await history.load(sink, backfilled[1])
    await history.close()
    assert max(len(batch.times) for batch in sink.batches) <= 2 * 20
    whole = PrometheusHistory(config(prometheus.url))
    once = Gathered()
    await whole.load(once, backfilled[1])
    await whole.close()
    assert sink.samples == once.samples


async def test_loading_resumes_where_it_stopped(prometheus: Prometheus, backfilled: tuple[Path, int]) -> None:
    history = PrometheusHistory(config(prometheus.url), clock=FakeClock())
    sink = Gathered()

    class Full(Exception):
        pass

    class Stopping(Gathered):
        def take(self, batch: Batch) -> None:
            if len(self.batches) == 3:
                raise Full
            super().take(batch)

    first = Stopping()
    with pytest.raises(Full):
        await history.load(first, backfilled[1])
    await history.load(sink, backfilled[1])
    await history.close()
    starts = [batch.times[0] for batch in [*first.batches, *sink.batches] if len(batch.times)]
    assert starts == sorted(set(starts))


async def test_eight_days_make_a_recommendation_at_once(cluster: Autoscaled, prometheus: Prometheus) -> None:
    await cluster.deployment("web", 2)
    await cluster.vpa("web", "web")
    settings = RecommenderConfig(address="", storage="prometheus", prometheus=config(prometheus.url))
    history = PrometheusHistory(settings.prometheus, clock=cluster.clock)
    recommender = Recommender(cluster.client, settings, history, cluster.clock)
    await recommender.start()
    try:
        await recommender.one_pass()
        [state] = [state for key, state in recommender.cluster.aggregates.items() if key.labels == "app=web"]
        assert state.count > DAYS * 24, "the two pods that still live"
        others = [key for key in recommender.cluster.aggregates if "app_kubernetes_io_part" in key.labels]
        assert others, "pods that are gone count under their old labels"
    finally:
        await recommender.stop()
    vpa = await cluster.admin.get(VPA, "default", "web")
    entry = vpa["status"]["recommendation"]["containerRecommendations"][0]
    assert entry["target"]["cpu"] == "587m", "0.5 cores, the bucket's end, 15 % more"
    assert not [condition for condition in vpa["status"]["conditions"] if condition["type"] == "FetchingHistory"]


async def test_a_prometheus_that_is_unavailable_at_start_is_queried_again(
    cluster: Autoscaled, backfilled: tuple[Path, int]
) -> None:
    late = Prometheus(backfilled[0])
    await cluster.deployment("web", 2)
    await cluster.vpa("web", "web")
    await cluster.recommend("web", {"cpu": "3", "memory": "3Gi"})
    settings = RecommenderConfig(address="", storage="prometheus", prometheus=config(late.url))
    clock = cluster.clock
    assert isinstance(clock, FakeClock)
    recommender = Recommender(cluster.client, settings, PrometheusHistory(settings.prometheus, clock=clock), clock)
    starting = asyncio.ensure_future(recommender.start())
    while "cannot be read" not in recommender.past.missing:
        await asyncio.sleep(0.01)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    try:
        await recommender.one_pass()
        vpa = await cluster.admin.get(VPA, "default", "web")
        fetching = next(
            condition for condition in vpa["status"]["conditions"] if condition["type"] == "FetchingHistory"
        )
        assert fetching["status"] == "True"
        standing = vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]
        assert standing == {"cpu": "3", "memory": "3Gi"}, "without its past nothing that stands is changed"
        await late.start()
        while recommender.past.missing:
            await clock.advance(60)
            await asyncio.sleep(0.01)
        await recommender.one_pass()
        vpa = await cluster.admin.get(VPA, "default", "web")
        fetching = next(
            condition for condition in vpa["status"]["conditions"] if condition["type"] == "FetchingHistory"
        )
        assert fetching["status"] == "False"
        assert vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "587m"
    finally:
        await recommender.stop()
        await late.stop()


async def test_a_wrong_address_is_reported_and_not_retried_forever() -> None:
    history = PrometheusHistory(config("http://127.0.0.1:9", prometheus_query_timeout=1.0))
    with pytest.raises(HistoryUnavailable, match="Prometheus http://127.0.0.1:9"):
        await history.load(Gathered(), 1.7e9)
    await history.close()


async def test_a_prometheus_without_data_leads_to_no_recommendation(
    prometheus: Prometheus, cluster: Autoscaled
) -> None:
    await cluster.deployment("web", 1)
    await cluster.vpa("web", "web")
    history = PrometheusHistory(config(prometheus.url, prometheus_cluster_label="cluster=none"), clock=cluster.clock)
    recommender = Recommender(
        cluster.client, RecommenderConfig(address="", storage="prometheus"), history, cluster.clock
    )
    await recommender.start()
    await recommender.one_pass()
    await recommender.stop()
    status = (await cluster.admin.get(VPA, "default", "web"))["status"]
    assert not recommender.past.missing and not status["recommendation"]
    [provided] = [condition for condition in status["conditions"] if condition["type"] == "RecommendationProvided"]
    assert (provided["status"], provided["reason"]) == ("False", "NoSamples")
