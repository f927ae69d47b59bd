"""Measures the autoscaler's loops: a pass over many autoscalers, resizes per second, the webhook's latency.

Run: PYTHONPATH=src python -m bench.bench_vpa_loops [autoscalers]. The recommender runs against canned responses, so
that it alone is measured; updater and webhook run against our API server in the same process.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import numpy as np
from tests.support.cluster.autoscaling import REPLICA_SET, autoscaled
from tests.support.cluster.loops import Loops, Phases

from bench.reporting import Row, print_table, spread_ms
from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, POD_METRICS, VPA, kind_named
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, Reply, Stream
from podfit.kit.clock import FakeClock, rfc3339
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.loop import AdmissionWebhook
from podfit.vpa.history.base import Batch, NoHistory, Series, Sink
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater


class Canned:
    """A server with a few fixed collections that accepts every write."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Object]] = {}
        self.writes = 0

    async def request(self, ask: ClientRequest) -> Reply:
        if ask.method != "GET":
            self.writes += 1
            return Reply(200, b"{}")
        items = self.lists.get(ask.path, [])
        return Reply(200, msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items}))

    @asynccontextmanager
    async def stream(self, ask: ClientRequest) -> AsyncIterator[Stream]:
        async def nothing() -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

        yield Stream(200, nothing())

    async def close(self) -> None:
        return


def crowd(vpas: int, pods_each: int) -> Canned:
    server = Canned()
    deployment = kind_named("Deployment")
    for kind in (VPA, POD, deployment):
        server.lists[kind.path()] = []
    for number in range(vpas):
        name, namespace = f"app-{number}", f"ns-{number % 200}"
        meta = {"name": name, "namespace": namespace, "resourceVersion": "1", "generation": 1, "uid": name}
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        server.lists[VPA.path()].append({"kind": VPA.kind, "metadata": meta, "spec": {"targetRef": reference}})
        selector = {"selector": {"matchLabels": {"app": name}}}
        server.lists[deployment.path()].append({"kind": "Deployment", "metadata": dict(meta), "spec": selector})
        for pod in range(pods_each):
            server.lists[POD.path()].append(
                {
                    "kind": "Pod",
                    "metadata": {**meta, "name": f"{name}-{pod}", "labels": {"app": name}},
                    "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": {}}]},
                    "status": {"phase": "Running"},
                }
            )
    return server


def scrape(server: Canned, instant: float) -> None:
    stamp = rfc3339(instant)
    server.lists[POD_METRICS.path()] = [
        {
            "metadata": {"namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"]},
            "timestamp": stamp,
            "containers": [
                {"name": "main", "usage": {"cpu": f"{50 + number % 900}m", "memory": f"{100 + number % 300}Mi"}}
            ],
        }
        for number, pod in enumerate(server.lists[POD.path()])
    ]


async def recommender_pass(vpas: int) -> list[Row]:
    """Measured in CPU time of this process: a pass waits for nothing, and other work on the machine does not count."""
    server = crowd(vpas, 5)
    recommender = Recommender(Client(server), RecommenderConfig(address=""))
    begun = time.process_time()
    await recommender.start()
    started = time.process_time() - begun
    seconds = []
    for number in range(3):
        scrape(server, time.time() + number * 60)
        begun = time.process_time()
        await recommender.one_pass()
        seconds.append(time.process_time() - begun)
    scrape(server, time.time() + 240)
    await recommender.usage.load()
    begun = time.process_time()
    written = await recommender.checkpoints.write(recommender.cluster, time.time(), 60.0)
    saved = time.process_time() - begun
    await recommender.stop()
    return [
        Row(f"recommender: start with {vpas:,} autoscalers and {vpas * 5:,} pods", f"{started:.2f} s"),
        Row("recommender: a pass that writes every status and every checkpoint", f"{max(seconds):.2f} s", "≤ 5 s"),
        Row(f"recommender: of it, {written:,} checkpoints", f"{saved:.2f} s"),
    ]


class TenDays(NoHistory):
    """Five-minute samples of every pod, as a history would return them."""

    def __init__(self, server: Canned, days: int = 10) -> None:
        self._pods = [one["metadata"] for one in server.lists[POD.path()]]
        self._days = days

    async def load(self, sink: Sink, until: float) -> None:
        random = np.random.default_rng(0)
        series = [Series(one["namespace"], one["name"], "main", f"app={one['labels']['app']}") for one in self._pods]
        level, index = random.uniform(100, 2000, len(series)), np.tile(np.arange(len(series)), 12)
        for hour in range(24 * self._days):
            times = until - 3600.0 * (24 * self._days - hour) + np.repeat(np.arange(12) * 300.0, len(series))
            cpu = (np.tile(level, 12) * random.lognormal(0, 0.2, len(index))).astype(np.int64)
            sink.take(Batch(series, index, times, cpu, cpu * 2**20))


async def policy_ratio(vpas: int) -> list[Row]:
    """The time of an hour of passes after ten days of history, with the default recommender and with `auto`."""
    seconds = {}
    for name in ("default", "auto"):
        server = crowd(vpas, 1)
        for vpa in server.lists[VPA.path()]:
            vpa["spec"]["recommenders"] = [{"name": name}]
        clock = FakeClock(1_800_000_000.0)
        recommender = Recommender(Client(server), RecommenderConfig(address=""), TenDays(server), clock)
        await recommender.start()
        while recommender.past.missing:
            await asyncio.sleep(0.01)
        await recommender.one_pass()
        seconds[name] = 0.0
        for _ in range(60):
            await clock.advance(60)
            scrape(server, clock.now())
            begun = time.process_time()
            await recommender.one_pass()
            seconds[name] += time.process_time() - begun
        await recommender.stop()
    shown = ", ".join(f"{name} {took:.1f} s" for name, took in seconds.items())
    what = f"recommender: an hour of passes with `auto`, in times of `default` ({vpas:,} autoscalers: {shown})"
    return [Row(what, f"{seconds['auto'] / seconds['default']:.2f}", "≤ 3")]


async def updater_rate(pods: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with autoscaled(Path(folder)) as cluster:
            await cluster.node("big", cpu="100000", memory="1000000Gi")
            for number in range(pods // 20):
                name = f"app-{number}"
                await cluster.deployment(name, 20, node="big")
                await cluster.vpa(name, name, updatePolicy={"updateMode": "InPlaceOrRecreate"})
                await cluster.recommend(name, {"cpu": "500m", "memory": "200Mi"}, lowerBound={"cpu": "400m"})
            updater = Updater(cluster.client, UpdaterConfig(address="", eviction_tolerance=1.0, scale_down_delay=0))
            await updater.start()
            begun = time.perf_counter()
            await updater.one_pass()
            seconds = time.perf_counter() - begun
            found = await cluster.admin.list(POD, "default")
            await updater.stop()
    done = sum(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m" for pod in found["items"])
    return [Row(f"updater: {done} pods resized in place in one pass", f"{done / seconds:.0f}/s", "≥ 100/s")]


async def step_met(before: float, after: float) -> list[Row]:
    """The number of updater passes until a pod whose load has jumped has a limit above the new load."""
    with tempfile.TemporaryDirectory() as folder:
        async with autoscaled(Path(folder), FakeClock()) as cluster:
            cpu = f"{int(before * 1000)}m"
            pods = await cluster.deployment("web", 1, cpu=cpu, limits={"cpu": cpu, "memory": "1Gi"})
            await cluster.vpa("web", "web", updatePolicy={"updateMode": "InPlaceOrRecreate", "minReplicas": 1})
            passes = 0
            async with Loops(cluster, pods) as loops:
                for _ in range(120):
                    await loops.minute(before * 0.8)
                while passes < 60:
                    passes += 1
                    if await loops.minute(after) >= after * 1000:
                        break
    return [Row(f"a step from {before:g} to {after:g} cores is met, in place", f"{passes} updater passes", "≤ 2")]


async def step_met_in_any_phase(before: float, after: float) -> list[Row]:
    """The same in seconds, for several phases of the intervals of recommender and updater."""
    slowest, interval = 0, UpdaterConfig().updater_interval
    for recommender_at, updater_at in ((1, 1), (20, 30), (40, 59), (60, 30)):
        with tempfile.TemporaryDirectory() as folder:
            async with autoscaled(Path(folder), FakeClock()) as cluster:
                cpu = f"{int(before * 1000)}m"
                pods = await cluster.deployment("web", 1, cpu=cpu, limits={"cpu": cpu, "memory": "1Gi"})
                await cluster.vpa("web", "web", updatePolicy={"updateMode": "InPlaceOrRecreate", "minReplicas": 1})
                async with Phases(cluster, pods, recommender_at, updater_at) as phases:
                    for _ in range(300):
                        await phases.second(before * 0.8)
                    slowest = max(slowest, await phases.seconds_until_met(after, 600))
    what = f"the same, wherever in their intervals of {interval:g} s recommender and updater are"
    return [Row(what, f"{slowest} s", f"≤ {2 * interval:g} s")]


async def webhook_latency(count: int, rate: float) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with autoscaled(Path(folder)) as cluster:
            # The nodes have room for all pods: resizes that have to wait for room would take longer.
            await cluster.node("big", cpu="100000", memory="1000000Gi", pods="100000")
            await cluster.deployment("web", 0)
            await cluster.vpa("web", "web")
            await cluster.recommend("web", {"cpu": "500m", "memory": "200Mi"})
            webhook = AdmissionWebhook(
                cluster.client, AdmissionConfig(port=0, host="127.0.0.1", address="", register_webhook=False)
            )
            await webhook.start()
            owner = await cluster.admin.get(REPLICA_SET, "default", "web-1")
            seconds = await _ask(webhook.port, _review(owner), count, rate)
            await webhook.stop()
    return [Row(f"admission: {count} pods at {rate:.0f}/s over HTTPS", spread_ms(seconds), "p99 ≤ 10 ms")]


def _review(owner: Object) -> bytes:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["metadata"]["name"], "controller": True}
    pod = {
        "metadata": {"generateName": "web-1-", "labels": {"app": "web"}, "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1m"}}}]},
    }
    request = {
        "uid": "u",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "object": pod,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


async def _ask(port: int, body: bytes, count: int, rate: float) -> list[float]:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    seconds: list[float] = []

    async def one(session: aiohttp.ClientSession) -> None:
        begun = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        async with session.post(f"https://127.0.0.1:{port}/", data=body, headers=headers, ssl=tls) as answer:
            review = await answer.json()
            assert review["response"]["patch"]
        seconds.append(time.perf_counter() - begun)

    async with aiohttp.ClientSession() as session:
        for _ in range(10):
            await one(session)
        seconds.clear()
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(one(session))
                await asyncio.sleep(1 / rate)
    return seconds


async def measure(vpas: int) -> list[Row]:
    loops = [
        *await recommender_pass(vpas),
        *await policy_ratio(vpas // 20),
        *await updater_rate(400),
        *await step_met(0.1, 2.0),
    ]
    loops += await step_met_in_any_phase(0.1, 2.0)
    return [*loops, *await webhook_latency(600, 200.0)]


def main() -> None:
    import gc

    import uvloop

    # The same value as in the commands.
    gc.set_threshold(20_000, 20, 20)
    vpas = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print_table("The autoscaler's loops", uvloop.run(measure(vpas)))


if __name__ == "__main__":
    main()
