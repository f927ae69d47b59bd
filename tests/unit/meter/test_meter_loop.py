"""The meter with nodes that join, leave and fail, and the API on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from podfit.api.numbers import ACCEPT, NodeReading, Reading
from podfit.api.status import ApiError
from podfit.apiserver.request import Response
from podfit.client.rest import Client
from podfit.client.transport import LocalTransport
from podfit.kit.clock import FakeClock
from podfit.meter.api import MetricsApi
from podfit.meter.meter import Meter, MeterConfig, Sample

PATIENCE_S = 10.0


class Cluster:
    """An API server with nodes and pods as metadata, and the pages of the nodes."""

    def __init__(self) -> None:
        self.clock = FakeClock(1024.0)  # small enough that a difference of times is exact to the nanosecond
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[tuple[str, str], dict[str, str]] = {}
        self.used: dict[tuple[str, str], float] = {}
        self.away: set[str] = set()
        self.asked: list[str] = []
        self._watchers: list[asyncio.Queue[bytes]] = []
        self.client = Client(LocalTransport(self._call))

    def add_node(self, name: str) -> None:
        self.nodes[name] = {"metadata": {"name": name, "resourceVersion": "1"}}
        event = msgspec.json.encode({"type": "ADDED", "object": self.nodes[name]}) + b"\n"
        for queue in self._watchers:
            queue.put_nowait(event)

    def page(self, node: str) -> str:
        at = int(self.clock.now() * 1000)
        lines = [
            f"node_cpu_usage_seconds_total {2 * self.clock.monotonic()} {at}",
            f"node_memory_working_set_bytes 99 {at}",
        ]
        for (namespace, pod), cores in self.used.items():
            labels = f'container="c",namespace="{namespace}",pod="{pod}"'
            lines.append(f"container_cpu_usage_seconds_total{{{labels}}} {cores * self.clock.monotonic()} {at}")
            lines.append(f"container_memory_working_set_bytes{{{labels}}} 1048576 {at}")
        return "\n".join(lines) + "\n"

    async def _call(
        self, method: str, path: str, query: dict[str, list[str]], headers: dict[str, str], body: bytes
    ) -> Response:
        if path.endswith("/proxy/metrics/resource"):
            node = path.split("/")[4]
            self.asked.append(node)
            if node in self.away:
                return Response(502, msgspec.json.encode(ApiError(502, "", "away").to_status()))
            return Response(200, self.page(node).encode())
        if query.get("watch"):
            return Response(200, stream=self._watch())
        parts = path.strip("/").split("/")
        if parts[2] == "nodes":
            items = list(self.nodes.values())
        else:
            items = [
                {"metadata": {"namespace": ns, "name": name, "labels": labels}}
                for (ns, name), labels in self.pods.items()
            ]
            if parts[2] == "namespaces":
                items = [item for item in items if item["metadata"]["namespace"] == parts[3]]
        if query.get("labelSelector"):
            key, _, value = query["labelSelector"][0].partition("=")
            items = [item for item in items if item["metadata"].get("labels", {}).get(key) == value]
        if parts[-1] not in ("nodes", "pods"):
            found = [item for item in items if item["metadata"]["name"] == parts[-1]]
            if not found:
                return Response(404, msgspec.json.encode(ApiError(404, "NotFound", "not found").to_status()))
            return Response(200, msgspec.json.encode(found[0]))
        return Response(200, msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items}))

    async def _watch(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watchers.append(queue)
        while True:
            yield await queue.get()


@asynccontextmanager
async def running(cluster: Cluster, **config: Any) -> AsyncIterator[tuple[Meter, list[Sample]]]:
    meter = Meter(cluster.client, MeterConfig(**config), cluster.clock)
    samples: list[Sample] = []
    meter.subscribe(samples.extend)
    task = asyncio.ensure_future(meter.run())
    await cluster.clock.advance(0.0)
    try:
        yield meter, samples
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def loaded() -> Cluster:
    cluster = Cluster()
    cluster.add_node("n1")
    cluster.pods = {("default", "a"): {"app": "x"}, ("other", "b"): {}}
    cluster.used = {("default", "a"): 0.25, ("other", "b"): 1.5}
    return cluster


async def test_a_new_container_has_a_rate_after_its_second_reading() -> None:
    cluster = loaded()
    async with running(cluster) as (meter, samples):
        assert meter.containers() == {}
        await cluster.clock.advance(1.3)
        assert round(meter.pod("default", "a")["c"].cores, 6) == 0.25
        node = meter.node("n1")
        assert node is not None
        assert round(node.cores, 6) == 2.0
        assert {(sample.namespace, sample.pod, sample.container, round(sample.cores, 6)) for sample in samples} == {
            ("default", "a", "c", 0.25),
            ("other", "b", "c", 1.5),
        }


async def test_nodes_are_read_at_the_interval() -> None:
    cluster = loaded()
    async with running(cluster, interval_s=15.0):
        await cluster.clock.advance(14.9)
        scrapes = len(cluster.asked)
        await cluster.clock.advance(15.0)
        assert len(cluster.asked) == scrapes + 1


async def test_a_new_node_is_not_kept_waiting() -> None:
    cluster = loaded()
    async with running(cluster, interval_s=600.0) as (meter, _):
        await cluster.clock.advance(5.0)
        cluster.add_node("n2")
        await cluster.clock.advance(2.0)
        assert meter.node("n2") is not None


async def test_a_node_that_does_not_answer_keeps_its_values_for_a_while_only() -> None:
    cluster = loaded()
    async with running(cluster, interval_s=10.0, stale_s=60.0) as (meter, _):
        await cluster.clock.advance(12.0)
        cluster.away.add("n1")
        await cluster.clock.advance(30.0)
        assert meter.node("n1") is not None
        await cluster.clock.advance(60.0)
        assert meter.node("n1") is None
        assert meter.pod("default", "a") == {}
        cluster.away.clear()
        await cluster.clock.advance(30.0)
        assert meter.pod("default", "a")


async def test_a_failing_subscriber_does_not_stop_the_meter() -> None:
    cluster = loaded()
    async with running(cluster) as (meter, samples):
        meter.subscribe(lambda _: 1 / 0)
        await cluster.clock.advance(60.0)
        assert len(samples) > 4


async def test_a_node_of_this_process_is_read_directly() -> None:
    cluster = loaded()
    meter = Meter(cluster.client, clock=cluster.clock)

    async def source() -> NodeReading:
        now = cluster.clock.now()
        return NodeReading(Reading(now, now, 1024.0), {("default", "a", "c"): Reading(now, now / 2, 512.0)})

    meter.sources["n1"] = source
    task = asyncio.ensure_future(meter.run())
    await cluster.clock.advance(2.0)
    assert meter.node("n1") is not None
    assert meter.pod("default", "a")["c"].cores == 0.5
    assert cluster.asked == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# --- metrics.k8s.io ------------------------------------------------------------------------------------------------

ROOT = "/apis/metrics.k8s.io/v1beta1"


async def ask(api: MetricsApi, path: str, method: str = "GET", accept: str = "", **query: str) -> tuple[int, Any]:
    listed = {key: [value] for key, value in query.items()}
    answer = await api.answer(method, ROOT + path, listed, {"accept": accept})
    return answer.status, msgspec.json.decode(answer.body)


@asynccontextmanager
async def serving(cluster: Cluster) -> AsyncIterator[MetricsApi]:
    async with running(cluster) as (meter, _):
        await cluster.clock.advance(1.3)
        yield MetricsApi(meter, cluster.client)


async def test_pods_are_listed_by_namespace_and_label() -> None:
    async with serving(loaded()) as api:
        _, everything = await ask(api, "/pods")
        assert everything["kind"] == "PodMetricsList"
        assert [item["metadata"]["name"] for item in everything["items"]] == ["a", "b"]
        assert everything["items"][0]["containers"] == [{"name": "c", "usage": {"cpu": "250m", "memory": "1Mi"}}]
        _, one = await ask(api, "/namespaces/other/pods")
        assert [item["metadata"]["name"] for item in one["items"]] == ["b"]
        _, labelled = await ask(api, "/pods", labelSelector="app=x")
        assert [item["metadata"]["labels"] for item in labelled["items"]] == [{"app": "x"}]


async def test_a_component_of_this_process_gets_numbers_of_a_namespace_or_of_all() -> None:
    cluster = loaded()
    async with serving(cluster) as api:
        headers = {"accept": ACCEPT}
        for path, keys in (("/pods", {"a", "b"}), ("/namespaces/other/pods", {"b"})):
            answer = await api.answer("GET", ROOT + path, {}, headers, here=True)
            assert answer.value["kind"] == "PodMetricsList"
            assert {pod for _, pod, _ in answer.value["numbers"].keys} == keys
        for query, here in (({}, False), ({"labelSelector": ["app=x"]}, True)):
            assert "items" in (await api.answer("GET", f"{ROOT}/pods", query, headers, here=here)).value


async def test_one_pod_and_one_node_are_found_by_name() -> None:
    async with serving(loaded()) as api:
        status, pod = await ask(api, "/namespaces/default/pods/a")
        assert (status, pod["kind"], pod["window"]) == (200, "PodMetrics", "1.2s")
        status, node = await ask(api, "/nodes/n1")
        assert (status, node["kind"], node["usage"]) == (200, "NodeMetrics", {"cpu": "2", "memory": "99"})


async def test_a_pod_without_usage_is_not_found() -> None:
    cluster = loaded()
    cluster.pods["default", "silent"] = {}
    async with serving(cluster) as api:
        for name in ("silent", "nobody"):
            status, reported = await ask(api, f"/namespaces/default/pods/{name}")
            assert (status, reported["reason"]) == (404, "NotFound")
            assert reported["message"] == f'podmetrics.metrics.k8s.io "default/{name}" not found'


async def test_tables_sum_containers() -> None:
    async with serving(loaded()) as api:
        _, table = await ask(api, "/nodes", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        assert table["kind"] == "Table"
        assert [row["cells"] for row in table["rows"]] == [["n1", "2", "99", "1.2s"]]


async def test_only_reading_is_allowed() -> None:
    async with serving(loaded()) as api:
        assert (await ask(api, "/pods", method="DELETE"))[0] == 405
        assert (await ask(api, "/pods", watch="true"))[0] == 405
        assert (await ask(api, "/services"))[0] == 404


async def test_the_group_describes_itself() -> None:
    async with serving(loaded()) as api:
        _, reported = await ask(api, "")
        assert [row["kind"] for row in reported["resources"]] == ["NodeMetrics", "PodMetrics"]
