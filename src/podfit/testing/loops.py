"""Recommender and updater beside a made-up node that runs pods under their CPU limits, minute by minute."""

from __future__ import annotations

from podfit.api.kinds import POD
from podfit.api.quantity import Quantity
from podfit.kit.clock import FakeClock
from podfit.testing.autoscaling import Autoscaled
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater


class Loops:
    """A pass of each a minute."""

    def __init__(self, cluster: Autoscaled, pods: list[str], config: RecommenderConfig | None = None) -> None:
        self.cluster, self.pods = cluster, pods
        self.recommender = Recommender(cluster.client, config or RecommenderConfig(address=""), clock=cluster.clock)
        self.updater = Updater(cluster.client, UpdaterConfig(address="", scale_down_delay=0), clock=cluster.clock)

    async def __aenter__(self) -> Loops:
        await self.recommender.start()
        await self.updater.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.updater.stop()
        await self.recommender.stop()

    async def minute(self, cores: float, bursts: float = 0.0, part: str = "400m") -> int:
        """The pods need so many cores for a minute, and in `part` of the time as many as `bursts` says. Answers the CPU
        limit of the first one then, in millicores."""
        for pod in self.pods:
            limit = await self._node(pod, cores)
            throttled = part if bursts * 1000 > limit else "0"
            self.cluster.metered.throttled["default", pod] = throttled
        assert isinstance(self.cluster.clock, FakeClock)
        await self.cluster.clock.advance(60)
        await self.recommender.one_pass()
        await self.updater.one_pass()
        limits = [await self._node(pod, cores) for pod in self.pods]
        return limits[0]

    async def _node(self, pod: str, cores: float) -> int:
        """Applies the pod's resources, and lets it use what it needs as far as its limit allows."""
        found = await self.cluster.admin.get(POD, "default", pod)
        resources = found["spec"]["containers"][0]["resources"]
        await self.cluster.running("default", pod, resources=resources)
        written = (resources.get("limits") or {}).get("cpu")
        limit = Quantity.parse(written).milli if written else 10**9
        self.cluster.use(pod, f"{min(int(cores * 1000), limit)}m", "100000000")
        return limit
