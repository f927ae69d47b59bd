"""`podfit backtest --prometheus` on a real Prometheus with eight days of history, and on ones that send wrong
responses.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from tests.support.servers.cadvisor import DAYS, History
from tests.support.servers.lying import NOW, SERIES, Impatient, Lying, serving
from tests.support.servers.prometheus import Prometheus, backfill, installed

from podfit.cli.backtesting import history as histories
from podfit.cli.backtesting.history import BadHistory
from podfit.cli.backtesting.prometheus import HistoryRequest, read_prometheus
from podfit.cli.backtesting.results import judged, what_if_of
from podfit.cli.recommending.progress import ProgressLine
from podfit.kit.clock import RealClock
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.policies.table import POLICIES

MI = 1 << 20
real = pytest.mark.skipif(not installed(), reason="prometheus and promtool are not installed")


@pytest.fixture
def end() -> int:
    return int(time.time()) // 3600 * 3600


@pytest.fixture
async def prometheus(tmp_path: Path, end: int) -> AsyncIterator[str]:
    """Two consecutive pods of a Deployment, a StatefulSet with a gap, and a pod whose counter was reset."""
    folder = tmp_path / "prometheus"
    folder.mkdir()
    past = History(end)
    half = end - DAYS * 43200
    past.usage("web-7d9f8c6b5-x2x4z", 0.5, 300 * MI, end=half)
    past.usage("web-6c8d9f7b5-b4c5d", 0.8, 500 * MI, begin=half)
    past.usage("db-0", 0.2, 700 * MI, end=half - 86400)
    past.usage("db-0", 0.2, 700 * MI, begin=half)
    past.usage("other", 0.1, 50 * MI, container="side")
    backfill(folder, past.lines())
    made = Prometheus(folder)
    await made.start()
    yield made.url
    await made.stop()


def asked(url: str, **more: Any) -> HistoryRequest:
    config = PrometheusConfig(
        prometheus_address=url,
        prometheus_queries_per_second=0,
        history_length=DAYS * 86400.0,
        prometheus_query_timeout=60.0,
    )
    return replace(HistoryRequest(config, share=1.0), **more)


@real
async def test_containers_of_workloads_are_tried_with_every_policy(prometheus: str) -> None:
    found, notes = await read_prometheus(asked(prometheus), ProgressLine(shown=False), RealClock())
    assert found.names == ("default/Deployment/web/main", "default/Pod/other/side", "default/StatefulSet/db/main")
    usage = found.series["cpu"].usage
    assert found.series["cpu"].step_s == 300
    assert np.nanmean(usage[0][:1000]) == pytest.approx(0.5, rel=0.02), "the first pod"
    assert np.nanmean(usage[0][-1000:]) == pytest.approx(0.8, rel=0.02), "the one after it"
    assert np.nanmax(found.series["memory"].usage[2]) == 700 * MI
    assert np.nanmax(usage[2]) < 0.25, "a counter that begins again is no burst"
    assert any("samples are missing" in words for words in found.missing), "the gap is named"
    assert not notes
    results = judged(found, list(POLICIES.values()), what_if_of([]))
    assert {(result.policy, result.resource) for result in results} == {
        (name, resource) for name in POLICIES for resource in ("cpu", "memory")
    }
    assert all(0 <= result.total.slack < 1 for result in results)


@real
def test_the_command_prints_a_table_and_says_what_is_partial(prometheus: str, tmp_path: Path) -> None:
    words = ["backtest", "--prometheus", prometheus, "--policy", "krr", "--history", "8d", "--fresh", "--load", "100"]
    done = subprocess.run(
        [sys.executable, "-m", "podfit.cli.main", *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [["krr", "cpu"], ["krr", "memory"]]
    assert "partial: " in done.stderr


@real
async def test_one_namespace_and_a_longer_step_are_read(prometheus: str) -> None:
    with pytest.raises(BadHistory, match="no series with labels for pod and container of namespace elsewhere"):
        await read_prometheus(asked(prometheus, namespace="elsewhere"), ProgressLine(shown=False), RealClock())
    found, _ = await read_prometheus(asked(prometheus, step_s=1200.0), ProgressLine(shown=False), RealClock())
    assert found.series["memory"].step_s == 1200
    assert found.series["memory"].usage.shape[1] <= DAYS * 72 + 1


async def lied(lying: Lying, **more: Any) -> tuple[histories.History, list[str]]:
    async with serving(lying) as url:
        given = asked(url, **more)
        given = replace(given, config=replace(given.config, history_length=2 * 86400.0, prometheus_query_timeout=5.0))
        return await read_prometheus(given, ProgressLine(shown=False), Impatient(NOW))


async def test_a_prometheus_that_is_down_is_named() -> None:
    with pytest.raises(BadHistory, match="Prometheus http://127.0.0.1:9: "):
        await read_prometheus(asked("http://127.0.0.1:9"), ProgressLine(shown=False), Impatient(NOW))


async def test_a_prometheus_that_does_not_answer_in_time_is_named() -> None:
    lying = Lying()
    lying.delay_s = 600.0
    async with serving(lying) as url:
        given = asked(url)
        given = replace(given, config=replace(given.config, history_length=86400.0, prometheus_query_timeout=1.0))
        with pytest.raises(BadHistory, match=f"Prometheus {url}: no answer within 1 s"):
            await read_prometheus(given, ProgressLine(shown=False), Impatient(NOW))


async def test_an_answer_that_is_cut_off_makes_results_partial() -> None:
    lying = Lying()

    def cut(asked: dict[str, str], answer: dict[str, Any]) -> web.StreamResponse | None:
        early = float(asked["start"]) < NOW - 86400
        return web.Response(text=json.dumps(answer, separators=(",", ":"))[:-200]) if early else None

    lying.fault = cut
    found, _ = await lied(lying)
    assert "response of Prometheus was cut off" in found.missing[0]
    assert np.isfinite(found.series["cpu"].usage).any(), "what was read counts"


async def test_invalid_numbers_are_dropped_and_counted() -> None:
    lying = Lying()

    def odd(asked: dict[str, str], answer: dict[str, Any]) -> web.StreamResponse | None:
        for series in answer["data"]["result"]:
            for at, value in zip(range(4), ("NaN", "+Inf", "-5", "NaN"), strict=True):
                series["values"][at][1] = value
        return None

    lying.fault = odd
    found, notes = await lied(lying)
    assert any("samples were not usable (NaN, infinite, negative): dropped" in words for words in notes)
    for series in found.series.values():
        known = series.usage[np.isfinite(series.usage)]
        assert (known > 0).all()


async def test_nothing_but_nan_is_an_error_and_no_zero() -> None:
    lying = Lying()

    def nothing(asked: dict[str, str], answer: dict[str, Any]) -> web.StreamResponse | None:
        for series in answer["data"]["result"]:
            series["values"] = [[at, "NaN"] for at, _ in series["values"]]
        return None

    lying.fault = nothing
    with pytest.raises(BadHistory, match="no sample|has no samples"):
        await lied(lying)


async def test_duplicate_series_are_one_container() -> None:
    lying = Lying()
    lying.containers = [SERIES, {**SERIES, "pod": "web-1-1"}, SERIES]
    found, _ = await lied(lying)
    assert len(found.names) == len(set(found.names))
    assert np.nanmax(found.series["cpu"].usage) == pytest.approx(0.5)


async def test_an_interrupted_reading_resumes(tmp_path: Path) -> None:
    lying, broken = Lying(), [True]

    def fails(asked: dict[str, str], answer: dict[str, Any]) -> web.StreamResponse | None:
        return web.Response(status=503) if broken[0] and float(asked["start"]) > NOW - 43200 else None

    lying.fault = fails
    small = PrometheusConfig(prometheus_queries_per_second=0, history_length=2 * 86400.0, prometheus_max_samples=100)
    async with serving(lying) as url:
        given = HistoryRequest(replace(small, prometheus_address=url), share=1.0, cache=tmp_path)
        first, _ = await read_prometheus(given, ProgressLine(shown=False), Impatient(NOW))
        asked_before = lying.ranges
        broken[0] = False
        second, notes = await read_prometheus(given, ProgressLine(shown=False), Impatient(NOW))
    assert first.missing and not second.missing
    assert any("parts were read in an earlier run and reused" in words for words in notes)
    assert lying.ranges - asked_before < asked_before


async def test_more_than_fits_into_memory_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podfit.cli.backtesting.prometheus.MOST_CELLS", 100)
    with pytest.raises(BadHistory, match="are too many; take a longer --step, a shorter --history or one --namespace"):
        await lied(Lying())
