"""podfit's components as clients of API servers of 1.31 and 1.32: which form they use, and what they read.

The older server is podfit's in that dialect, behind a transport that reports an older server's version and discovery.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.resize.dialects import HEADER
from podfit.api.status import ApiError
from podfit.cli.resizing.stages import step_of
from podfit.client.rest import STRATEGIC, Client
from podfit.client.transport import ClientRequest, Reply, Stream, Transport
from podfit.vpa.updater.decide.resizing import ResizeStatus, resize_status


class Older:
    """A transport to a server of `version`, without the native form and without later features."""

    def __init__(self, inner: Transport, version: str, gate: bool = True) -> None:
        self._inner, self._minor, self._gate = inner, version.rpartition(".")[2], gate
        self.close = inner.close
        self.sent: list[ClientRequest] = []

    async def request(self, ask: ClientRequest) -> Reply:
        self.sent.append(ask)
        if ask.path == "/version":
            said = {"major": "1", "minor": self._minor, "gitVersion": f"v1.{self._minor}.0"}
            return Reply(200, json.dumps(said).encode())
        if ask.path == "/api/v1":
            names = ["pods", "pods/status", *(["pods/resize"] if self._minor == "32" and self._gate else [])]
            return Reply(200, json.dumps({"resources": [{"name": name} for name in names]}).encode())
        return await self._inner.request(self._plain(ask))

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(self._plain(ask))

    @staticmethod
    def _plain(ask: ClientRequest) -> ClientRequest:
        kept = {key: value for key, value in (ask.headers or {}).items() if key != HEADER}
        return msgspec.structs.replace(ask, headers=kept)


BOTH = pytest.mark.parametrize("version", ["1.31", "1.32"])


@pytest.fixture
async def cluster(tmp_path: Path, version: str) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, resize_dialect=f"v{version}") as made:
        yield made


def older(cluster: Cluster, version: str) -> Client:
    return Client(Older(cluster.client.transport, version))


async def node_of(cluster: Cluster, version: str) -> TestNode:
    """A node whose agent is a client of the older server."""
    node = TestNode(cluster, "n1", {"capacity": {"cpu": "2", "memory": "1Gi", "pods": "10"}})
    node._client = older(cluster, version)
    node.agent = node._agent()
    cluster.nodes.append(node)
    await node.start()
    sizes = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}}
    one = {"name": "c", "image": "busybox", "command": ["sleep", "1d"], "resources": sizes}
    spec = {"nodeName": "n1", "containers": [one], "terminationGracePeriodSeconds": 0}
    await cluster.client.create(POD, {"metadata": {"name": "p"}, "spec": spec}, "default")
    await node.quiet()
    return node


def cpu(request: str, limit: str = "") -> Object:
    sizes = {"requests": {"cpu": request}, "limits": {"cpu": limit or request}}
    return {"spec": {"containers": [{"name": "c", "resources": sizes}]}}


@BOTH
async def test_a_resize_goes_where_the_server_takes_it(cluster: Cluster, version: str) -> None:
    await node_of(cluster, version)
    client = older(cluster, version)
    await client.patch(POD, "default", "p", cpu("600m", "1"), "resize", STRATEGIC)
    assert isinstance(client.transport, Older)
    path = "/api/v1/namespaces/default/pods/p"
    assert client.transport.sent[-1].path == (path if version == "1.31" else f"{path}/resize")


@BOTH
async def test_our_agent_reports_a_resize_with_the_message_of_the_server(cluster: Cluster, version: str) -> None:
    node = await node_of(cluster, version)
    seen: list[str | None] = []

    async def watch() -> None:
        async for _, pod in cluster.client.watch(POD, "default"):
            word = pod["status"].get("resize")
            if not seen or seen[-1] != word:
                seen.append(word)

    watching = asyncio.create_task(watch())
    try:
        async with asyncio.timeout(10):
            while not seen:
                await asyncio.sleep(0)
            await older(cluster, version).patch(POD, "default", "p", cpu("600m", "1"), "resize", STRATEGIC)
            await node.quiet()
            while seen[-1] is not None or len(seen) < 2:
                await asyncio.sleep(0)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    assert seen == [None, "Proposed", "InProgress", None]


@BOTH
async def test_our_agent_stores_no_condition_that_the_server_does_not_know(cluster: Cluster, version: str) -> None:
    node = await node_of(cluster, version)
    await older(cluster, version).patch(POD, "default", "p", cpu("90"), "resize", STRATEGIC)
    await node.quiet()
    pod = await cluster.client.get(POD, "default", "p")
    assert pod["status"]["resize"] == "Infeasible"
    sent = [ask.body for ask in node._client.transport.sent if ask.path.endswith("/status")]  # type: ignore[attr-defined]
    assert not any(b"PodResize" in bytes(body or b"") or b"observedGeneration" in bytes(body or b"") for body in sent)


@BOTH
async def test_our_agent_does_not_repeat_what_the_server_drops(cluster: Cluster, version: str) -> None:
    node = await node_of(cluster, version)
    await node.quiet()
    before = await cluster.client.get(POD, "default", "p")
    node.agent.enqueue(before["metadata"]["uid"])
    await node.quiet()
    after = await cluster.client.get(POD, "default", "p")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@BOTH
async def test_clients_read_the_word_of_an_older_server_as_conditions(cluster: Cluster, version: str) -> None:
    node = await node_of(cluster, version)
    client = older(cluster, version)
    answer = await client.patch(POD, "default", "p", cpu("90"), "resize", STRATEGIC)
    assert (step_of(answer).stage, step_of(answer).why) == ("Pending", "waiting for the node")
    assert resize_status(answer) is ResizeStatus.DEFERRED
    await node.quiet()
    pod = await client.get(POD, "default", "p")
    listed = (await client.list(POD, "default"))["items"][0]
    for item in (pod, listed):
        assert (step_of(item).stage, step_of(item).reason) == ("Pending", "Infeasible")
        assert resize_status(item) is ResizeStatus.INFEASIBLE


@pytest.mark.parametrize("version", ["1.31"])
async def test_a_verdict_that_a_later_resize_left_behind_is_not_believed(cluster: Cluster, version: str) -> None:
    """1.31 keeps the value when a resize requests the allocation again, until the node has processed it."""
    node = await node_of(cluster, version)
    client = older(cluster, version)
    await client.patch(POD, "default", "p", cpu("90"), "resize", STRATEGIC)
    await node.quiet()
    await node.stop()
    answer = await client.patch(POD, "default", "p", cpu("500m", "1"), "resize", STRATEGIC)
    assert answer["status"]["resize"] == "Infeasible"
    assert (step_of(answer).reason, step_of(answer).why) == ("", "waiting for the node")


async def test_a_server_that_does_not_resize_gets_one_clear_sentence(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        client = Client(Older(cluster.client.transport, "1.31", gate=False))
        one = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "500m"}}}
        await cluster.client.create(POD, {"metadata": {"name": "p"}, "spec": {"containers": [one]}}, "default")
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
        with pytest.raises(ApiError) as refused:
            await client.patch(POD, "default", "p", patch, "resize", STRATEGIC)
    reported = "the API server (v1.31.0) does not resize pods in place: InPlacePodVerticalScaling is off"
    assert str(refused.value) == reported


async def test_a_current_server_gets_native_requests(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        form = await cluster.native.server_form()
    assert (form.on_pod, form.in_words) == (False, False)
