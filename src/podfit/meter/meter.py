"""The meter: scrapes every node, stores the current usage of each container, and passes it to subscribers that keep
history.

Nodes are read through the API server (nodes/proxy), those of the same process directly. A node that does not answer
keeps its last values for a while; then they are dropped, because Kubernetes shows nothing rather than outdated values.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from podfit.api.numbers import Key, NodeReading, Numbers
from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE
from podfit.api.status import ApiError
from podfit.client.cache import Cache
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, RealClock, sleep_unless
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.concurrency.time_slice import TimeSlice
from podfit.meter.rates import NodeRates, Use
from podfit.meter.readings import read_page

log = logging.getLogger(__name__)

Source = Callable[[], Awaitable[NodeReading]]
"""Returns a node's /metrics/resource page as numbers."""


class Sample(NamedTuple):
    namespace: str
    pod: str
    container: str
    cores: float
    memory_bytes: float
    at: float


Subscriber = Callable[[Sequence[Sample]], None]


@dataclass(frozen=True)
class MeterConfig:
    interval_s: float = 15.0
    second_look_s: float = 1.2
    """The time after which new containers are read again, so that they have a rate."""
    timeout_s: float = 10.0
    at_once: int = 32
    """How many nodes of other processes are scraped concurrently."""
    stale_s: float = 60.0


class Meter:
    def __init__(self, client: Client, config: MeterConfig | None = None, clock: Clock | None = None) -> None:
        self.client, self.config = client, config or MeterConfig()
        self.clock: Clock = clock or RealClock()
        self.sources: dict[str, Source] = {}
        """Nodes that can be read without the API server, by name."""
        self.scrapes = self.failures = 0
        self._nodes = Cache(client, NODE, clock=self.clock)
        self._rates: dict[str, NodeRates] = {}
        self._logged_at: dict[str, float] = {}
        self._where: dict[tuple[str, str], str] = {}
        """(namespace, pod) → node"""
        self._subscribers: list[Subscriber] = []
        self._wake = asyncio.Event()
        self._tasks = Tasks("meter")

    def subscribe(self, subscriber: Subscriber) -> None:
        """Registers a function that is called after each scrape with all new values."""
        self._subscribers.append(subscriber)

    # --- lifecycle
    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            self._tasks.start(self._nodes.run(), "nodes")
            await self._nodes.ready.wait()
            self._nodes.subscribe(self._node_changed)
            while True:
                self._wake.clear()
                await self.scrape()
                rest = self.config.interval_s
                if unsettled := [name for name, rates in self._rates.items() if not rates.settled]:
                    await self._pause(self.config.second_look_s)
                    await self.scrape(unsettled)
                    rest = max(0.0, rest - self.config.second_look_s)
                await self._pause(rest)
        finally:
            await self._tasks.stop()

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        if before is None:
            self._wake.set()
        elif after is None:
            self._forget(before["metadata"]["name"])

    async def _pause(self, seconds: float) -> None:
        """Waits until the next scrape, or until a new node appears."""
        await sleep_unless(self.clock, seconds, self._wake)

    # --- scraping
    async def scrape(self, names: Sequence[str] | None = None) -> None:
        """Reads the named nodes, or all of them, once, and notifies the subscribers."""
        gate = asyncio.Semaphore(self.config.at_once)
        samples: list[Sample] = []
        if names is None:
            names = [node["metadata"]["name"] for node in self._nodes]
        here = [name for name in names if name in self.sources]
        away = [name for name in names if name not in self.sources]
        await asyncio.gather(
            self._scrape_here(here, samples), *(self._scrape_away(agent, gate, samples) for agent in away)
        )
        for subscriber in self._subscribers if samples else ():
            try:
                subscriber(samples)
            except Exception:
                log.exception("a subscriber of the meter failed")

    async def _scrape_here(self, names: Sequence[str], samples: list[Sample]) -> None:
        """Reads nodes of this process one after the other, since they respond without delay, and yields to other tasks
        in between."""
        for name in names:
            await self._scrape_node(name, samples)
            await asyncio.sleep(0)

    async def _scrape_away(self, name: str, gate: asyncio.Semaphore, samples: list[Sample]) -> None:
        async with gate:
            await self._scrape_node(name, samples)

    async def _scrape_node(self, name: str, samples: list[Sample]) -> None:
        self.scrapes += 1
        try:
            async with asyncio.timeout(self.config.timeout_s):
                reading = await self._read(name)
        except (ApiError, Unreachable, TimeoutError, OSError) as error:
            self.failures += 1
            log.info("node %s cannot be measured: %s", name, error or type(error).__name__)
            if self.clock.monotonic() - self._logged_at.get(name, -self.config.stale_s) >= self.config.stale_s:
                self._forget(name)
            return
        self._logged_at[name] = self.clock.monotonic()
        rates = self._rates.get(name)
        if rates is None:
            rates = self._rates[name] = NodeRates(2 * self.config.interval_s)
        before, news = rates.placed, rates.take(reading)
        for key in news if self._subscribers else ():
            use = rates.containers[key]
            samples.append(Sample(*key, use.cores, use.memory_bytes, use.at))
        if before is not rates.placed:
            self._place(name, before.keys(), rates.placed.keys())

    async def _read(self, name: str) -> NodeReading:
        source = self.sources.get(name)
        if source is not None:
            return await source()
        page = str(await self.client.raw("GET", f"{NODE.path('', name)}/proxy/metrics/resource"))
        return read_page(page, self.clock.now())

    def _place(self, node: str, before: Set[tuple[str, str]], after: Set[tuple[str, str]]) -> None:
        for pod in before - after:
            if self._where.get(pod) == node:
                del self._where[pod]
        for pod in after - before:
            self._where[pod] = node

    def _forget(self, node: str) -> None:
        rates = self._rates.pop(node, None)
        if rates is not None:
            self._place(node, rates.placed.keys(), set())
        self._logged_at.pop(node, None)

    # --- queries
    def node(self, name: str) -> Use | None:
        rates = self._rates.get(name)
        return rates.node if rates is not None else None

    def pod(self, namespace: str, name: str) -> dict[str, Use]:
        """The usage of a pod by container; empty while it is unknown."""
        rates = self._rates.get(self._where.get((namespace, name), ""))
        return rates.pod(namespace, name) if rates is not None else {}

    def containers(self) -> dict[Key, Use]:
        """The current usage of all containers."""
        return {key: use for rates in self._rates.values() for key, use in rates.containers.items()}

    async def numbers(self, namespace: str = "") -> Numbers:
        """The current usage of a namespace's containers, or of all containers if the name is empty, as columns."""
        found = Numbers()
        turns = TimeSlice(self.clock)
        for node, rates in list(self._rates.items()):
            for pod, keys in rates.placed.items():
                # A pod that moved may still be reported by its previous node.
                if self._where.get(pod) == node and (not namespace or pod[0] == namespace):
                    rates.collect(keys, found)
            found.oom_ends.update(
                {key: count for key, count in rates.oom_ends.items() if not namespace or key[0] == namespace}
            )
            if turns.over():
                await turns.give()
        return found
