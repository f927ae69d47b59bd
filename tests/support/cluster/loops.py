"""Recommender and updater with a simulated node that runs pods within their CPU limits, in steps of a minute or a
second."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self

from tests.support.cluster.autoscaling import Autoscaled

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD, VPA
from podfit.client.cache import key_of
from podfit.kit.clock import FakeClock
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

METERED_S = 15
"""The period in seconds over which usage is averaged."""

EAGER = UpdaterConfig(
    address="",
    scale_down_delay=0,
    scale_down_step=1.0,
    min_replicas=1,
    in_place_skip_disruption_budget=True,
    use_admission_controller_status=False,
    pod_update_threshold=0.0,
    in_recommendation_bounds_eviction_lifetime_threshold=0.0,
)
"""An updater without delays and thresholds."""


class Loops:
    """Recommender and updater, with one pass of each per minute."""

    def __init__(self, cluster: Autoscaled, pods: list[str], config: RecommenderConfig | None = None) -> None:
        self.cluster, self.pods = cluster, pods
        self.recommender = Recommender(cluster.client, config or RecommenderConfig(address=""), clock=cluster.clock)
        self.updater = Updater(cluster.client, UpdaterConfig(address="", scale_down_delay=0), clock=cluster.clock)

    async def __aenter__(self) -> Self:
        await self.recommender.start()
        await self.updater.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.updater.stop()
        await self.recommender.stop()

    async def minute(self, cores: float, bursts: float = 0.0, part: str = "400m") -> int:
        """Simulates a minute in which the pods need `cores`, and for `part` of the time `bursts`. Returns the CPU limit
        of the first one afterwards, in millicores."""
        for pod in self.pods:
            limit = await self._node(pod, cores)
            throttled = part if bursts * 1000 > limit else "0"
            self.cluster.metered.throttled["default", pod] = throttled
        assert isinstance(self.cluster.clock, FakeClock)
        await self._seen()
        await self.cluster.clock.advance(60)
        await self.recommender.one_pass()
        await self._seen()
        await self.updater.one_pass()
        limits = [await self._node(pod, cores) for pod in self.pods]
        return limits[0]

    async def _seen(self) -> None:
        """Waits until the caches of both have every write: a write returns before watches have delivered it."""
        followed = {
            VPA: (self.recommender.caches.vpas, self.updater.caches.vpas),
            POD: (self.recommender.feed.pods, self.updater.pods),
        }
        for kind, caches in followed.items():
            for written in (await self.cluster.admin.list(kind, "default"))["items"]:
                version = written["metadata"]["resourceVersion"]
                for cache in caches:
                    while (cache.get(*key_of(written)) or written)["metadata"]["resourceVersion"] != version:
                        await asyncio.sleep(0.001)

    async def _node(self, pod: str, cores: float) -> int:
        """Applies the pod's resources, sets its usage to `cores` or its limit if that is lower, and returns the
        limit."""
        found = await self.cluster.admin.get(POD, "default", pod)
        resources = found["spec"]["containers"][0]["resources"]
        await self.cluster.running("default", pod, resources=resources)
        written = (resources.get("limits") or {}).get("cpu")
        limit = Quantity.parse(written).milli if written else 10**9
        self.cluster.use(pod, f"{min(int(cores * 1000), limit)}m", "100000000")
        return limit


class Phases(Loops):
    """The same in steps of a second: recommender and updater run at their own intervals, not in step."""

    def __init__(self, cluster: Autoscaled, pods: list[str], recommender_at: int, updater_at: int) -> None:
        """`recommender_at` and `updater_at`: the second of the first pass of each."""
        super().__init__(cluster, pods)
        cluster.metered.window = f"{METERED_S}s"
        self._next = [recommender_at, updater_at]
        self._used: deque[int] = deque(maxlen=METERED_S)
        self._second = 0

    async def seconds_until_met(self, cores: float, most: int) -> int:
        """The seconds until the limit of pods that need `cores` allows that; `most` if it does not within that time."""
        for second in range(most):
            if await self.second(cores) >= cores * 1000:
                return second
        return most

    async def second(self, cores: float) -> int:
        """Simulates a second; returns the CPU limit of the first pod."""
        limit = await self._node(self.pods[0], cores)
        self._used.append(min(int(cores * 1000), limit))
        for pod in self.pods:
            self.cluster.use(pod, f"{sum(self._used) // len(self._used)}m", "100000000")
        assert isinstance(self.cluster.clock, FakeClock)
        await self.cluster.clock.advance(1)
        self._second += 1
        if self._second >= self._next[0]:
            await self.recommender.one_pass()
            self._next[0] = self._second + int(self.recommender.rest_s())
            await self._seen()
        if self.updater.urgent:
            await self.updater.urgent_pass()
        if self._second >= self._next[1]:
            await self.updater.one_pass()
            self._next[1] = self._second + int(self.updater.config.updater_interval)
        return await self._node(self.pods[0], cores)
