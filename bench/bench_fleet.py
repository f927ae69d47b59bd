"""Many nodes in one process on the fake runtime: their start-up time, their memory, and resizes per second.

Run: PYTHONPATH=src python -m bench.bench_fleet [nodes] [pods a node]. The default is small enough for `make bench`.
Clients call the server in the same process, so that the nodes are measured and not TLS.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from bench.cluster import converged, pod, running, size
from bench.reporting import Row, print_table
from podfit.api.objects import Object

NODES, PODS_EACH, RESIZES, AT_ONCE = 100, 10, 1000, 100
IDLE_S = 30.0
"""Long enough for two scrapes of the metrics server and half of the autoscaler's interval of a minute."""
Check = Callable[[Object], bool]


def rss_mib() -> float:
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024


class Fleet:
    """The nodes, and a client that watches all pods."""

    def __init__(self, folder: Path, nodes: int) -> None:
        from podfit.api.registry.kinds import POD
        from podfit.apiserver.request import ADMIN
        from podfit.client.cache import Cache
        from podfit.compose import Up, UpOptions

        capacity = {"cpu": "64", "memory": "256Gi"}
        self.up = Up(UpOptions(folder, runtime="fake", nodes=nodes, node_name="n", node_capacity=capacity))
        self.client = self.up.client(ADMIN, "bench")
        self.pods = Cache(self.client, POD, "bench")
        self._waiting: dict[str, tuple[Check, asyncio.Future[None]]] = {}

    async def start(self) -> None:
        from podfit.api.registry.kinds import NAMESPACE, kind_named
        from podfit.kit.process import garbage
        from podfit.kit.process.huge_pages import keep_in_huge_pages

        garbage.collect_rarely()
        await self.up.start()
        garbage.freeze_existing_objects()
        self.up.tasks.start(keep_in_huge_pages(self.up.clock), "pages")
        await self.client.create(NAMESPACE, {"metadata": {"name": "bench"}})
        while await self.client.find(kind_named("ServiceAccount"), "bench", "default") is None:
            await asyncio.sleep(0.02)
        self.up.tasks.start(self.pods.run(), "bench")
        await self.pods.ready.wait()
        self.pods.subscribe(self._changed)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            return
        name = after["metadata"]["name"]
        waiting = self._waiting.get(name)
        if waiting is not None and waiting[0](after):
            del self._waiting[name]
            waiting[1].set_result(None)

    async def until(self, name: str, check: Check) -> None:
        found = self.pods.get("bench", name)
        if found is None or not check(found):
            seen = asyncio.get_running_loop().create_future()
            self._waiting[name] = (check, seen)
            await seen

    async def run_pod(self, name: str, node: str) -> None:
        from podfit.api.registry.kinds import POD

        await self.client.create(POD, pod(name, nodeName=node), "bench")
        await self.until(name, running)

    async def resize(self, name: str, milli: int) -> None:
        from podfit.api.registry.kinds import POD
        from podfit.client.rest import STRATEGIC

        await self.client.patch(POD, "bench", name, size(milli), "resize", STRATEGIC)
        await self.until(name, converged(milli))


async def at_once(work: Iterable[Awaitable[None]], limit: int) -> None:
    gate = asyncio.Semaphore(limit)

    async def one(what: Awaitable[None]) -> None:
        async with gate:
            await what

    await asyncio.gather(*map(one, work))


async def measure(nodes: int, each: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="podfit-bench-") as folder:
        began = time.perf_counter()
        fleet = Fleet(Path(folder), nodes)
        await fleet.start()
        try:
            rows = [Row(f"{nodes} nodes started", f"{time.perf_counter() - began:.1f} s, {rss_mib():.0f} MiB")]
            return rows + await loaded(fleet, nodes, each)
        finally:
            await fleet.up.stop()


async def loaded(fleet: Fleet, nodes: int, each: int) -> list[Row]:
    places = [(f"p{number}", f"n-{number % nodes + 1}" if nodes > 1 else "n") for number in range(nodes * each)]
    began, cpu = time.perf_counter(), time.process_time()
    await at_once((fleet.run_pod(*place) for place in places), AT_ONCE)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    started = (
        f"{len(places) / seconds:.0f}/s ({cpu / len(places) * 1000:.1f} ms of processor each), {rss_mib():.0f} MiB"
    )
    rows = [Row(f"{len(places)} pods started", started)]
    names = [places[number % len(places)][0] for number in range(RESIZES)]
    began, cpu = time.perf_counter(), time.process_time()
    for start in range(0, RESIZES, len(places)):
        part = names[start : start + len(places)]
        await at_once((fleet.resize(name, 300 + 100 * (start // len(places) % 2)) for name in part), AT_ONCE)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    rate = f"{RESIZES / seconds:.0f}/s ({cpu / RESIZES * 1000:.1f} ms of processor each)"
    rows.append(Row("resizes through the whole path", rate, "≥ 1,000/s"))
    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.sleep(IDLE_S)
    share = (time.process_time() - cpu) / (time.perf_counter() - began)
    rows.append(Row("idle", f"{share * 100:.1f} % of a core"))
    return rows


def main() -> None:
    import uvloop

    given = [int(word) for word in sys.argv[1:3] if word.isdigit()]
    nodes, each = (*given, *(NODES, PODS_EACH)[len(given) :])
    title = f"A fleet in one process (fake runtime, durable store): {nodes} nodes of {each} pods"
    print_table(title, uvloop.run(measure(nodes, each)))


if __name__ == "__main__":
    main()
