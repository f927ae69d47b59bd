"""The caches of one component, started together.

Each component follows only the kinds that it needs; the others take no memory and need no permission.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, VPA, Kind, kind_named
from podfit.client import Cache, Client
from podfit.client.cache import BY_NAMESPACE, Index, Key, key_of
from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks
from podfit.vpa.model.objects.readable import readable
from podfit.vpa.observe import trims

log = logging.getLogger(__name__)

WELL_KNOWN: dict[str, Kind] = {
    name: kind_named(name, group)
    for name, group in (
        ("DaemonSet", "apps"),
        ("Deployment", "apps"),
        ("ReplicaSet", "apps"),
        ("StatefulSet", "apps"),
        ("ReplicationController", ""),
        ("Job", "batch"),
        ("CronJob", "batch"),
    )
}
PAGE = 500
TIMEOUT_S = 5.0
"""A start that takes longer than this is logged."""
Trim = Callable[[Object], Object]


class Caches:
    def __init__(self, client: Client, clock: Clock, namespace: str = "", ignored: Iterable[str] = ()) -> None:
        """`namespace` restricts autoscalers and pods to one namespace; autoscalers in `ignored` namespaces are
        skipped."""
        self.client, self.clock, self.namespace = client, clock, namespace
        self.ignored = frozenset(ignored)
        self.tasks = Tasks("vpa-caches")
        self.caches: list[Cache] = []
        self._read: dict[Key, tuple[Object, Object]] = {}
        """Autoscalers as stored, and with unusable values replaced."""
        self.vpas = self.follow(VPA)
        self.workloads = {name: self.follow(kind, trim=trims.workload) for name, kind in WELL_KNOWN.items()}

    def follow(
        self, kind: Kind, trim: Trim | None = None, indexes: Mapping[str, Index] | None = None, **query: str
    ) -> Cache:
        """Adds a cache of this kind, indexed by namespace by default."""
        namespace = self.namespace if kind.namespaced else ""
        by = {"namespace": BY_NAMESPACE} if indexes is None else indexes
        return self.add(
            Cache(self.client, kind, namespace, indexes=by, clock=self.clock, page=PAGE, trim=trim, **query)
        )

    def add(self, cache: Cache) -> Cache:
        """Adds a cache, which starts with the others."""
        self.caches.append(cache)
        return cache

    def follow_pods(self, selector: str, by_namespace: bool = False, trim: Trim = trims.pod) -> Cache:
        return self.follow(POD, trim, None if by_namespace else {}, fieldSelector=selector)

    def watched_vpas(self) -> list[Object]:
        """The autoscalers of the namespaces that this component handles, with unusable values replaced."""
        known, self._read = self._read, {}
        for vpa in self.vpas:
            if vpa["metadata"].get("namespace") not in self.ignored:
                key = key_of(vpa)
                before = known.get(key)
                self._read[key] = before if before is not None and before[0] is vpa else (vpa, readable(vpa))
        return [read for _, read in self._read.values()]

    def watched_vpas_in(self, namespace: str) -> list[Object]:
        return [] if namespace in self.ignored else [readable(vpa) for vpa in self.vpas.by("namespace", namespace)]

    async def start(self) -> None:
        """Starts all caches; returns once they are synced."""
        for cache in self.caches:
            self.tasks.start(cache.run(), f"cache of {cache.kind.plural}")
        waiting = asyncio.ensure_future(self._all_ready())
        try:
            await asyncio.wait({waiting}, timeout=TIMEOUT_S)
            if not waiting.done():
                kinds = sorted({cache.kind.plural for cache in self.caches if not cache.ready.is_set()})
                log.warning("the API server does not list %s yet; retrying", ", ".join(kinds))
            await waiting
        finally:
            waiting.cancel()

    async def _all_ready(self) -> None:
        for cache in self.caches:
            await cache.ready.wait()

    async def stop(self) -> None:
        await self.tasks.stop()
