"""A real Prometheus that scrapes every five minutes: peaks, kills and gaps between the steps of a query."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.cluster.autoscaling import autoscaled
from tests.support.servers.prometheus import Prometheus, backfill, installed

from podfit.api.registry.kinds import VPA
from podfit.kit.clock import FakeClock
from podfit.vpa.history.base import Batch
from podfit.vpa.history.prometheus import PrometheusHistory
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender

STEP, LENGTH = 300, 2 * 86400
PODS = ("web-1-0", "web-1-1")
KILLS = (7 * 3600 + 60, 20 * 3600 - 60, 30 * 3600 + 1799)
"""Seconds after the start of the history: before and after the borders of windows."""
GAP = (40 * 3600, 43 * 3600)
pytestmark = pytest.mark.skipif(not installed(), reason="prometheus and promtool are not installed")


def _open_metrics(start: int) -> Iterator[str]:
    """Each pod uses 0.1 cores and, for one hour in ten, a whole one; memory has a peak of five minutes."""
    instants = [at for at in range(0, LENGTH + 1, STEP) if not GAP[0] < at < GAP[1]]
    labels = [f'namespace="default",pod="{pod}"' for pod in PODS]
    yield "# TYPE container_cpu_usage_seconds counter"
    for label in labels:
        used = 0.0
        for at in range(0, LENGTH + 1, STEP):
            if at in instants:
                yield f'container_cpu_usage_seconds_total{{{label},container="main"}} {used} {start + at}'
            used += STEP * (1.0 if 1500 <= at % 36000 < 1500 + 3600 else 0.1)
    yield "# TYPE container_memory_working_set_bytes gauge"
    for label in labels:
        for at in instants:
            amount = 9e8 if at == 50 * STEP else 1e8
            yield f'container_memory_working_set_bytes{{{label},container="main"}} {amount} {start + at}'
    yield "# TYPE container_oom_events counter"
    for at in instants:
        kills = 3 + sum(at >= kill for kill in KILLS)
        yield f'container_oom_events_total{{{labels[0]},container="main"}} {kills} {start + at}'
    yield "# TYPE kube_pod_labels gauge"
    for label in labels:
        for at in instants:
            yield f'kube_pod_labels{{{label},label_app="web"}} 1 {start + at}'
    yield "# EOF"


@pytest.fixture(scope="module")
def backfilled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("prometheus")
    end = int(time.time()) // STEP * STEP
    backfill(folder, _open_metrics(end - LENGTH))
    return folder, end


@pytest.fixture
async def prometheus(backfilled: tuple[Path, int]) -> AsyncIterator[Prometheus]:
    made = Prometheus(backfilled[0])
    await made.start()
    yield made
    await made.stop()


def config(prometheus: Prometheus, **more: object) -> PrometheusConfig:
    base = PrometheusConfig(
        prometheus_address=prometheus.url, prometheus_queries_per_second=0, history_length=float(LENGTH)
    )
    return replace(base, **more)  # type: ignore[arg-type]


class Gathered:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def take(self, batch: Batch) -> None:
        self.batches.append(batch)

    def values(self, resource: str) -> np.ndarray:  # type: ignore[type-arg]
        found = np.concatenate([getattr(batch, resource) for batch in self.batches])
        return found[found >= 0]


async def gathered(history: PrometheusHistory, until: float) -> Gathered:
    sink = Gathered()
    await history.load(sink, until)
    await history.close()
    return sink


async def test_a_resolution_finer_than_the_scrapes_loses_no_samples(
    prometheus: Prometheus, backfilled: tuple[Path, int]
) -> None:
    history = PrometheusHistory(config(prometheus, history_resolution=60.0))
    sink = await gathered(history, backfilled[1])
    scrapes = (LENGTH - (GAP[1] - GAP[0])) // STEP * len(PODS)
    assert history.step == STEP
    assert len(sink.values("cpu")) >= 0.95 * scrapes
    assert len(sink.values("memory")) >= 0.95 * scrapes


@pytest.mark.parametrize("shift", [0, 700, 1300])
async def test_peaks_are_read_in_full_wherever_the_steps_lie(
    prometheus: Prometheus, backfilled: tuple[Path, int], shift: int
) -> None:
    sink = await gathered(PrometheusHistory(config(prometheus)), backfilled[1] - shift)
    assert sink.values("cpu").max() >= 990
    assert sink.values("memory").max() == 900_000_000


@pytest.mark.parametrize("parts", [500_000, 30])
async def test_every_kill_of_the_history_is_found_once(
    prometheus: Prometheus, backfilled: tuple[Path, int], parts: int
) -> None:
    history = PrometheusHistory(config(prometheus, prometheus_max_samples=parts))
    sink = await gathered(history, backfilled[1])
    begun = backfilled[1] - LENGTH
    found = [oom.instant - begun for batch in sink.batches for oom in batch.ooms]
    assert [0 <= at - kill <= 2 * history.step for at, kill in zip(found, KILLS, strict=True)] == [True] * len(KILLS)


async def test_a_gap_in_the_history_is_named(
    prometheus: Prometheus, backfilled: tuple[Path, int], caplog: pytest.LogCaptureFixture
) -> None:
    history = PrometheusHistory(config(prometheus))
    with caplog.at_level(logging.WARNING):
        await gathered(history, backfilled[1])
    [(first, last)] = history.gaps
    begun = backfilled[1] - LENGTH
    assert GAP[0] <= first - begun <= GAP[0] + 3600
    assert GAP[1] <= last - begun <= GAP[1] + 3600
    assert "Prometheus has no data from" in caplog.text


async def test_two_days_of_history_are_counted_and_trusted(
    prometheus: Prometheus, backfilled: tuple[Path, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with autoscaled(tmp_path / "server", FakeClock(float(backfilled[1]))) as cluster:
        await cluster.deployment("web", 2)
        await cluster.vpa("web", "web")
        settings = RecommenderConfig(address="", storage="prometheus", prometheus=config(prometheus))
        history = PrometheusHistory(settings.prometheus, clock=cluster.clock)
        recommender = Recommender(cluster.client, settings, history, cluster.clock)
        with caplog.at_level(logging.INFO):
            await recommender.start()
        await recommender.one_pass()
        await recommender.stop()
        vpa = await cluster.admin.get(VPA, "default", "web")
    [line] = [record for record in caplog.records if record.msg.startswith("history: %d samples")]
    samples, containers = line.args  # type: ignore[misc]
    assert containers == len(PODS)
    sink = await gathered(PrometheusHistory(config(prometheus)), backfilled[1])
    assert samples == len(sink.values("cpu")) + len(sink.values("memory"))
    assert not [condition for condition in vpa["status"]["conditions"] if condition["type"] == "LowConfidence"]
