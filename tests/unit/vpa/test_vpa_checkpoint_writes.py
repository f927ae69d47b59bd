"""When checkpoints are written: only changed ones, the longest unwritten first, for as long as there is time."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from typing import Any

from prometheus_client import CollectorRegistry

from podfit.api.selectors import LabelSelector
from podfit.client import Client
from podfit.client.transport import ClientRequest, Reply, Stream
from podfit.kit.clock import FakeClock
from podfit.vpa.recommender.decide.checkpoints import checkpoints_of
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState
from podfit.vpa.recommender.measures import RecommenderMeasures
from podfit.vpa.recommender.writes import Checkpoints


class Server:
    """A server that takes so many seconds for each request, and rejects some names."""

    def __init__(self, clock: FakeClock, seconds: float = 0.0) -> None:
        self.clock, self.seconds, self.written = clock, seconds, list[str]()
        self.refused = ""

    async def request(self, ask: ClientRequest) -> Reply:
        name = ask.path.rpartition("/")[2]
        self.clock._mono += self.seconds
        if self.refused and re.match(self.refused, name):
            return Reply(500, b"{}")
        self.written.append(name)
        return Reply(200, b"{}")

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        return


class Nothing:
    """A cache without checkpoints."""

    def get(self, namespace: str, name: str) -> None:
        return None


def made(vpas: int, seconds: float = 0.0, workers: int = 2) -> tuple[Checkpoints, ClusterState, Server]:
    clock = FakeClock()
    server = Server(clock, seconds)
    cluster = ClusterState(Config(), Fleet(Config()))
    for number in range(vpas):
        cluster.add_vpa({"metadata": {"namespace": "n", "name": f"v{number}"}}, LabelSelector.parse(f"app=a{number}"))
        cluster.add_pod(("n", f"p{number}"), {"app": f"a{number}"}, "Running")
        cluster.add_container(("n", f"p{number}"), "main")
        cluster.add_cpu(("n", f"p{number}"), "main", 100, clock.now())
    measures = RecommenderMeasures(CollectorRegistry(), clock)
    cache: Any = Nothing()
    return Checkpoints(Client(server), cache, clock, workers, measures), cluster, server


async def test_all_are_written_in_one_go_and_then_only_what_changed() -> None:
    checkpoints, cluster, server = made(600)
    assert await checkpoints.write(cluster, 1.0, 60) == 600
    assert len(set(server.written)) == 600
    assert await checkpoints.write(cluster, 2.0, 60) == 0
    cluster.add_cpu(("n", "p7"), "main", 100, 2e9)
    assert await checkpoints.write(cluster, 3.0, 60) == 1
    assert server.written[-1] == "v7-main"


async def test_when_time_is_up_the_rest_comes_first_next_time() -> None:
    checkpoints, cluster, server = made(10, seconds=1.0)
    assert await checkpoints.write(cluster, 1.0, 3.5) < 10
    first = set(server.written)
    for number in range(10):
        cluster.add_cpu(("n", f"p{number}"), "main", 100, 2e9)
    await checkpoints.write(cluster, 2.0, 3.5)
    assert not first & set(server.written[len(first) :])


async def test_without_any_time_each_worker_writes_one() -> None:
    checkpoints, cluster, server = made(10, seconds=1.0, workers=3)
    assert await checkpoints.write(cluster, 1.0, 0.0) == 3 == len(server.written)


async def test_what_was_refused_is_written_again() -> None:
    checkpoints, cluster, server = made(3)
    server.refused = "v1-main"
    await checkpoints.write(cluster, 1.0, 60)
    server.refused = ""
    server.written.clear()
    await checkpoints.write(cluster, 2.0, 60)
    assert server.written == ["v1-main"]


async def test_a_peak_whose_window_ends_without_new_samples_is_written_in_the_end() -> None:
    checkpoints, cluster, _ = made(2)
    now = float(cluster.vpas["n", "v0"].states()[0][1].last)
    cluster.add_memory(("n", "p0"), "main", 10**9, now)
    assert await checkpoints.write(cluster, now, 60) == 2
    assert "totalWeight" not in checkpoints_of(cluster, cluster.vpas["n", "v0"], now)[0]["status"]["memoryHistogram"]
    assert await checkpoints.write(cluster, now + 3600, 60) == 0
    assert await checkpoints.write(cluster, now + 86400, 60) == 2
    later = checkpoints_of(cluster, cluster.vpas["n", "v0"], now + 86400)[0]
    assert later["status"]["memoryHistogram"]["totalWeight"] > 0
    assert await checkpoints.write(cluster, now + 86460, 60) == 0
