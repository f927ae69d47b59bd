"""Watches single objects that pods of this node mount: one watch per object, shared by its pods, closed with the last
of them.

Each watch selects one name in one namespace, which is all that a node is allowed to read. This module does not know how
objects are mounted: pods that use a changed object are enqueued, and read it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.client.cache import Cache
from podfit.client.rest import Client
from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks

Reference = tuple[str, str, str]
"""(kind, namespace, name)"""


@dataclass(slots=True)
class _Watched:
    cache: Cache
    task: asyncio.Task[Any]
    users: set[str] = field(default_factory=set)
    read: str = ""
    """The resourceVersion that its users read before the watch delivered anything."""


class Followed:
    def __init__(self, client: Client, clock: Clock, tasks: Tasks, on_change: Callable[[str], None]) -> None:
        """`on_change`: called with the uid of each pod that uses a changed object."""
        self._client, self._clock, self._tasks, self._on_change = client, clock, tasks, on_change
        self._watched: dict[Reference, _Watched] = {}
        self._used: dict[str, frozenset[Reference]] = {}
        self._stale: set[str] = set()
        """Pods that use an object which has changed since they read it."""

    def use(self, uid: str, references: Iterable[Reference]) -> None:
        """Sets the objects that the pod uses."""
        wanted = frozenset(references)
        before = self._used.get(uid, frozenset())
        if wanted == before:
            return
        for reference in wanted - before:
            self._watch(reference).users.add(uid)
        for reference in before - wanted:
            self._leave(uid, reference)
        if wanted:
            self._used[uid] = wanted
        else:
            self._used.pop(uid, None)
            self._stale.discard(uid)

    def is_stale(self, uid: str) -> bool:
        return uid in self._stale

    def mark_read(self, uid: str) -> None:
        """Called before the pod reads its objects."""
        self._stale.discard(uid)

    def _watch(self, reference: Reference) -> _Watched:
        watched = self._watched.get(reference)
        if watched is None:
            kind, namespace, name = reference
            cache = Cache(
                self._client, kind_named(kind), namespace, clock=self._clock, fieldSelector=f"metadata.name={name}"
            )
            cache.subscribe(lambda before, after: self._changed(reference, after))
            task = self._tasks.start(cache.run(), f"follow-{kind}-{namespace}-{name}")
            watched = self._watched[reference] = _Watched(cache, task)
        return watched

    def _leave(self, uid: str, reference: Reference) -> None:
        watched = self._watched[reference]
        watched.users.discard(uid)
        if not watched.users:
            watched.task.cancel()
            del self._watched[reference]

    def _changed(self, reference: Reference, after: Object | None) -> None:
        watched = self._watched.get(reference)
        if watched is None or (after is not None and after["metadata"].get("resourceVersion") == watched.read):
            return
        for uid in sorted(watched.users):
            self._stale.add(uid)
            self._on_change(uid)

    def current(self, reference: Reference) -> tuple[bool, Object | None]:
        """Whether the watch has received the object's state, and the object."""
        watched = self._watched.get(reference)
        if watched is None or not watched.cache.connected:
            return False, None
        return True, watched.cache.get(reference[1], reference[2])

    def was_read(self, reference: Reference, found: Object | None) -> None:
        watched = self._watched.get(reference)
        if watched is not None:
            watched.read = found["metadata"].get("resourceVersion") or "" if found is not None else ""

    def connected(self, uid: str) -> bool:
        """Whether all objects of the pod are being watched."""
        return all(self._watched[reference].cache.connected for reference in self._used.get(uid, ()))

    def __len__(self) -> int:
        return len(self._watched)


def references(pod: Object) -> list[Reference]:
    """The ConfigMaps and Secrets among a pod's volumes."""
    namespace = pod["metadata"].get("namespace") or "default"
    found: list[Reference] = []
    for volume in pod["spec"].get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        for source in (volume, *sources):
            if projection := source.get("configMap"):
                found.append(("ConfigMap", namespace, str(projection["name"])))
            if projection := source.get("secret"):
                found.append(("Secret", namespace, str(projection.get("secretName") or projection["name"])))
    return found
