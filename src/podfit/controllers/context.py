"""The dependencies of every controller: a client, shared caches, an Event recorder, a clock.

Caches are shared: there is one copy of a kind, however many controllers read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.client import Cache, Client, EventRecorder
from podfit.client.cache import BY_NAMESPACE, Index
from podfit.client.recording.events import NamedRecorder
from podfit.controllers.owners import OwnerWatch, controller_uid, orphan_in
from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks

if TYPE_CHECKING:
    from podfit.controllers.nodes.blocks import Blocks


def _node(pod: Object) -> Iterable[str]:
    return ((pod.get("spec") or {}).get("nodeName") or "",)


_OWNERS = ("metadata", "ownerReferences")
_INDEXES = {
    "namespace": BY_NAMESPACE,
    "controller": Index(controller_uid, _OWNERS),
    "orphan": Index(orphan_in, _OWNERS),
}
POD_INDEXES = {**_INDEXES, "node": Index(_node, ("spec", "nodeName"))}


class Informers:
    """Caches by kind, with the indexes `namespace`, `controller` and `orphan`; pods also by `node`."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._caches: dict[Kind, Cache] = {}
        self._waking: dict[Kind, OwnerWatch] = {}
        self._tasks = Tasks("informers")
        self._running = False

    def of(self, kind: Kind) -> Cache:
        cache = self._caches.get(kind)
        if cache is None:
            indexes = POD_INDEXES if kind == POD else _INDEXES
            cache = self._caches[kind] = Cache(self._client, kind, indexes=indexes, clock=self._clock, page=500)
            if self._running:
                self._tasks.start(cache.run(), f"watch-{kind.plural}")
        return cache

    def waking(self, kind: Kind) -> OwnerWatch:
        """The watch that enqueues the owners of objects of this kind."""
        waking = self._waking.get(kind)
        if waking is None:
            waking = self._waking[kind] = OwnerWatch(self.of(kind))
        return waking

    def kinds(self) -> list[Kind]:
        """The kinds watched so far."""
        return list(self._caches)

    async def start(self) -> None:
        """Starts all caches requested so far (later ones start on request) and waits until each is synced."""
        self._running = True
        for kind, cache in self._caches.items():
            self._tasks.start(cache.run(), f"watch-{kind.plural}")
        await asyncio.gather(*(cache.ready.wait() for cache in list(self._caches.values())))

    async def stop(self) -> None:
        self._running = False
        await self._tasks.stop()


@dataclass
class ControllerContext:
    client: Client
    informers: Informers
    recorder: EventRecorder | NamedRecorder
    clock: Clock
    cluster_ca: bytes = b""
    """PEM of the CA that signed the API server's certificate; published as kube-root-ca.crt."""
    sign_request: Callable[[bytes, Sequence[str], int | None], bytes] | None = None
    """Signs a PEM certificate request for the given usages; None if this process does not hold the CA's key."""

    pod_blocks: tuple[Blocks, ...] = ()
    """The source of nodes' pod ranges; without it none are assigned."""

    client_of: Callable[[str], Client] | None = None
    """The client of a service account of kube-system; without it all requests use `client`."""

    def named(self, component: str) -> ControllerContext:
        """The same context for a controller whose Events carry its own name."""
        return replace(self, recorder=self.recorder.named(component))

    def acting(self, account: str) -> ControllerContext:
        """The same context for a controller that writes as this service account; caches stay shared."""
        return replace(self, client=self.client_of(account)) if self.client_of is not None and account else self

    def cache(self, kind: Kind) -> Cache:
        return self.informers.of(kind)


class Controller(Protocol):
    """Built with a context, before the caches start: it requests its caches and subscribes in its constructor."""

    name: str

    async def run(self) -> None:
        """Runs until cancelled; called once all caches are synced."""
