"""Measures how fast, and in how much memory, the recommender reads its history from a real Prometheus.

Run: PYTHONPATH=src python -m bench.bench_vpa_history [containers]. Eight days of usage are generated, written
to Prometheus' blocks, and read in a separate process, whose peak memory includes everything: interpreter, numpy,
histograms. The lower bound is a plain download of the same responses in the same run.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
from tests.support.servers.prometheus import Prometheus, backfill, installed

from bench.reporting import Row, print_table
from podfit.vpa.history.prometheus import PrometheusHistory
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState
from podfit.vpa.recommender.intake.past import Past

DAYS, STEP = 8, 600
MIB = 1 << 20


def made_up(containers: int, end: int) -> Iterator[str]:
    """Generated series with the names that cAdvisor and kube-state-metrics use."""
    instants = range(end - DAYS * 86400, end + 1, STEP)
    pods = [f'namespace="ns-{number % 20}",pod="app-{number // 4}-{number}"' for number in range(containers)]
    yield "# TYPE container_cpu_usage_seconds counter"
    for number, pod in enumerate(pods):
        for at in instants:
            cores = 0.05 + number % 40 / 10
            yield f'container_cpu_usage_seconds_total{{{pod},container="main"}} {cores * (at - instants[0]):.2f} {at}'
    yield "# TYPE container_memory_working_set_bytes gauge"
    for number, pod in enumerate(pods):
        for at in instants:
            amount = (100 + number % 300 + at // STEP % 50) * MIB
            yield f'container_memory_working_set_bytes{{{pod},container="main"}} {amount} {at}'
    yield "# TYPE kube_pod_labels gauge"
    for number, pod in enumerate(pods):
        for at in range(end - DAYS * 86400, end + 1, 43200):
            yield f'kube_pod_labels{{{pod},label_app="app-{number // 4}"}} 1 {at}'
    yield "# EOF"


async def load(url: str, end: float, step: float) -> None:
    """Runs in the measured process: prints what it has read."""
    cluster = ClusterState(Config(), Fleet(Config()))
    past = Past(cluster)
    settings = PrometheusConfig(prometheus_address=url, history_resolution=step)
    history = PrometheusHistory(settings, known_labels=("app",))
    begun = time.perf_counter()
    await history.load(past, end)
    past.end()
    seconds = time.perf_counter() - begun
    await history.close()
    found = {
        "seconds": seconds,
        "samples": past.samples,
        "aggregates": len(cluster.aggregates),
        "queries": history.api.sent,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


async def download(url: str, end: float, step: float) -> float:
    """Seconds to download both responses completely and discard them."""
    begun = time.perf_counter()
    async with aiohttp.ClientSession() as session:
        for query in ("rate(container_cpu_usage_seconds_total[1h])", "container_memory_working_set_bytes"):
            asked = {"query": query, "start": f"{end - DAYS * 86400}", "end": f"{end}", "step": f"{step}"}
            async with session.post(f"{url}/api/v1/query_range", data=asked) as answer:
                answer.raise_for_status()
                async for _ in answer.content.iter_chunked(1 << 18):
                    pass
    return time.perf_counter() - begun


async def measure(containers: int) -> list[Row]:
    end = int(time.time()) // STEP * STEP
    with tempfile.TemporaryDirectory() as made:
        backfill(Path(made), made_up(containers, end))
        prometheus = Prometheus(Path(made))
        await prometheus.start()
        try:
            plain = await download(prometheus.url, end, 3600)
            words = [sys.executable, "-m", "bench.bench_vpa_history", "load", prometheus.url, str(end), "3600"]
            reader = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
            found = json.loads((await reader.communicate())[0])
        finally:
            await prometheus.stop()
    what = f"history: {DAYS} days of {containers:,} containers"
    detail = f"{found['samples']:,} CPU samples, {found['aggregates']:,} aggregates, {found['queries']} queries"
    return [
        Row(f"{what} ({detail})", f"{found['seconds']:.1f} s", "≤ 10 s"),
        Row("the same answers downloaded and thrown away", f"{plain:.1f} s"),
        Row("memory of the reading process at its peak", f"{found['peak_mib']:.0f} MiB", "≤ 150 MiB"),
    ]


def main() -> None:
    if sys.argv[1:2] == ["load"]:
        asyncio.run(load(sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))
        return
    if not installed():
        print("prometheus and promtool are not installed: the history is not measured")
        return
    containers = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print_table("The autoscaler's history", asyncio.run(measure(containers)))


if __name__ == "__main__":
    main()
