"""ReplicaSets never have two pods in place of one, despite lost responses, rejected writes and interrupted watches.

The server is real; only the connection to it fails. A request or its response may be lost, and a watch may break at any
event. An observer with a reliable connection counts pods at every change.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cluster.expect import all_become

from podfit.api.registry.kinds import POD, kind_named
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import ADMIN
from podfit.client import Client, EventRecorder
from podfit.client.transport import ClientRequest, Reply, Stream, Transport, Unreachable
from podfit.compose import Up, UpOptions
from podfit.controllers.context import ControllerContext, Informers
from podfit.controllers.workloads import ReplicaSetController
from podfit.kit.clock import RealClock
from podfit.kit.concurrency.tasks import Tasks

SET = kind_named("ReplicaSet")
ACCOUNT = kind_named("ServiceAccount")


class BadLine:
    """A transport that loses messages at random, but not for ever, because otherwise no progress would be required."""

    def __init__(self, inner: Transport, dice: random.Random, loss: float) -> None:
        self.inner, self.dice, self.loss = inner, dice, loss
        self.losses_left = 12

    def _loses(self, share: float = 1.0) -> bool:
        lost = self.losses_left > 0 and self.dice.random() < self.loss * share
        self.losses_left -= lost
        return lost

    async def request(self, ask: ClientRequest) -> Reply:
        await asyncio.sleep(self.dice.random() * 0.002)
        if self._loses():
            raise Unreachable("lost on the way there")
        reply = await self.inner.request(ask)
        if self._loses():
            raise Unreachable("lost on the way back")
        return reply

    @asynccontextmanager
    async def stream(self, ask: ClientRequest) -> AsyncIterator[Stream]:
        async with self.inner.stream(ask) as stream:

            async def chunks() -> AsyncIterator[bytes]:
                async for chunk in stream.chunks:
                    # Slower than the retries: the cache lags behind the writes.
                    await asyncio.sleep(self.dice.random() * 0.2)
                    if self._loses(0.5):
                        raise Unreachable("the watch broke")
                    yield chunk

            yield Stream(stream.status, chunks())

    async def close(self) -> None:
        await self.inner.close()


async def most_pods(client: Client, seen: dict[str, int]) -> None:
    """Keeps the highest number of live pods in `seen["most"]`."""
    living: set[str] = set()
    async with aclosing(client.watch(POD, "default", resourceVersion="0")) as events:
        async for event, pod in events:
            uid = pod["metadata"]["uid"]
            if event == "DELETED" or pod["metadata"].get("deletionTimestamp"):
                living.discard(uid)
            else:
                living.add(uid)
            seen["most"] = max(seen["most"], len(living))


def body(replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


async def play(folder: Path, seed: int, loss: float, sizes: list[int]) -> int:
    up = Up(UpOptions(folder, store="memory", nodes=0, controllers=False, scheduler=False, vpa=False))
    await up.start()
    good = local_client(up.server, ADMIN, "test")
    tasks, seen = Tasks("test"), {"most": 0}
    try:
        await good.create(ACCOUNT, {"metadata": {"name": "default", "namespace": "default"}}, "default")
        tasks.start(most_pods(good, seen))
        clock = RealClock()
        bad = Client(BadLine(good.transport, random.Random(seed), loss))
        world = ControllerContext(bad, Informers(bad, clock), EventRecorder(bad, "test", clock=clock), clock)
        controller = ReplicaSetController(world)
        tasks.start(world.informers.start())
        tasks.start(controller.run())
        await good.create(SET, body(sizes[0]))
        for size in sizes[1:]:
            await good.patch(SET, "default", "rs", {"spec": {"replicas": size}})
            await all_become(good, POD, "default", lambda pods, size=size: len(pods) == size)  # type: ignore[misc]
        await all_become(good, POD, "default", lambda pods: len(pods) == sizes[-1])
        await world.informers.stop()
        return seen["most"]
    finally:
        await tasks.stop()
        await up.stop()


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([0.1, 0.3]), st.lists(st.integers(0, 3), min_size=1, max_size=2))
def test_a_replica_set_never_has_more_pods_than_were_ever_requested(seed: int, loss: float, sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        most = asyncio.run(play(Path(folder), seed, loss, sizes))
    assert most <= max(sizes)
