"""Several resizes decided together: decreases go first, and no pod is reported as waiting for capacity that
they free at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.cluster.nodes import Cluster, TestNode

from podfit.api.registry.kinds import POD
from podfit.client.cache import Cache, Handler


def size(cpu: str, memory: str = "64Mi") -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


async def pod(cluster: Cluster, name: str, resources: dict[str, Any]) -> str:
    container = {"name": "c", "image": "busybox:1", "command": ["sleep", "1d"], "resources": resources}
    spec = {"nodeName": "node1", "automountServiceAccountToken": False, "containers": [container]}
    meta = {"name": name, "namespace": "default"}
    made = await cluster.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    return str(made["metadata"]["uid"])


async def resize(cluster: Cluster, name: str, resources: dict[str, Any]) -> None:
    await cluster.resize(name, {"spec": {"containers": [{"name": "c", "resources": resources}]}})


@asynccontextmanager
async def following(cluster: Cluster, look: Handler) -> AsyncIterator[None]:
    """`look` is called with every state of every pod that a watch delivers."""
    cache = Cache(cluster.client, POD)
    cache.subscribe(look)
    task = asyncio.ensure_future(cache.run())
    await cache.ready.wait()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def pending_seen(cluster: Cluster) -> AsyncIterator[set[tuple[str, str]]]:
    """Every PodResizePending in any state of any pod meanwhile: pod and reason."""
    found: set[tuple[str, str]] = set()

    def look(_: Any, after: Any) -> None:
        for condition in ((after or {}).get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodResizePending":
                found.add((after["metadata"]["name"], condition["reason"]))

    async with following(cluster, look):
        yield found


async def shown(cluster: Cluster, name: str) -> dict[str, Any]:
    resources: dict[str, Any] = (await cluster.pod(name))["status"]["containerStatuses"][0]["resources"]
    return resources


async def asked_while_away(cluster: Cluster, node: TestNode, small: str, large: str) -> None:
    """Two pods of 200m and 1500m are resized while no agent runs."""
    await pod(cluster, "large", size("1500m"))
    await pod(cluster, "small", size("200m"))
    await node.quiet()
    await node.stop()
    await resize(cluster, "small", size(small))
    await resize(cluster, "large", size(large))


async def warnings(cluster: Cluster) -> list[str]:
    return [event["reason"] for event in await cluster.events() if event["type"] == "Warning"]


async def test_an_increase_that_fits_once_a_decrease_is_applied_never_shows_as_pending_after_a_start(
    cluster: Cluster, node: TestNode
) -> None:
    await asked_while_away(cluster, node, small="1500m", large="200m")
    async with pending_seen(cluster) as pending:
        await node.restart()
        await node.quiet()
    assert await shown(cluster, "small") == size("1500m")
    assert await shown(cluster, "large") == size("200m")
    assert pending == set()
    assert await warnings(cluster) == []


async def test_swapping_sizes_on_a_running_node_leaves_no_pod_pending(cluster: Cluster, node: TestNode) -> None:
    await pod(cluster, "large", size("1500m"))
    await pod(cluster, "small", size("200m"))
    await node.quiet()
    async with pending_seen(cluster) as pending:
        await resize(cluster, "large", size("200m"))
        await resize(cluster, "small", size("1500m"))
        await node.quiet()
    assert await shown(cluster, "small") == size("1500m")
    assert pending == set()
    assert await warnings(cluster) == []


async def test_an_increase_that_no_decrease_makes_room_for_is_deferred_at_once(
    cluster: Cluster, node: TestNode
) -> None:
    await asked_while_away(cluster, node, small="1500m", large="600m")
    async with pending_seen(cluster) as pending:
        await node.restart()
    assert pending == {("small", "Deferred")}
    assert await warnings(cluster) == ["ResizeDeferred"]


async def test_an_increase_is_deferred_when_the_decrease_it_waits_for_does_not_come(
    cluster: Cluster, node: TestNode
) -> None:
    uid = await pod(cluster, "large", size("200m", "3Gi"))
    await pod(cluster, "small", size("200m", "64Mi"))
    await node.quiet()
    node.runtime.set_load(uid, "c", memory=float(2 << 30))
    await node.quiet()
    await resize(cluster, "large", size("200m", "64Mi"))
    await resize(cluster, "small", size("200m", "3Gi"))
    await node.pass_time(2)
    status = (await cluster.pod("small"))["status"]
    assert [condition["reason"] for condition in status["conditions"] if condition["type"] == "PodResizePending"] == [
        "Deferred"
    ]
    assert sorted(set(await warnings(cluster))) == ["ResizeDeferred", "ResizeError"]

    node.runtime.set_load(uid, "c", memory=float(1 << 20))
    await node.pass_time(1)
    assert await shown(cluster, "small") == size("200m", "3Gi")


async def test_a_resize_that_waits_silently_is_not_answered_by_an_older_verdict(
    cluster: Cluster, node: TestNode
) -> None:
    """Meanwhile the condition of an earlier, infeasible size remains; it does not apply to the new generation."""
    await pod(cluster, "large", size("1500m"))
    await pod(cluster, "small", size("200m"))
    await node.quiet()
    await resize(cluster, "small", size("50"))
    await node.quiet()
    answered: list[tuple[int, int]] = []

    def look(_: Any, after: Any) -> None:
        if after is not None and after["metadata"]["name"] == "small":
            status = after["status"]
            verdicts = [condition for condition in status["conditions"] if condition["type"] == "PodResizePending"]
            answered.extend((status["observedGeneration"], verdict["observedGeneration"]) for verdict in verdicts)

    async with following(cluster, look):
        await resize(cluster, "large", size("200m"))
        await resize(cluster, "small", size("1500m"))
        await node.quiet()
    assert await shown(cluster, "small") == size("1500m")
    assert all(status == verdict for status, verdict in answered)
