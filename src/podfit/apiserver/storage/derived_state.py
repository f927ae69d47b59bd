"""Maintains state that the server derives from the store: roles, references of nodes, allocated addresses.

The state is built from the store at start and updated by its changes. Aggregated cluster roles are written back, so
that their stored rules are the effective ones.
"""

from __future__ import annotations

from functools import partial

from podfit.api.registry.kinds import POD, kind_named
from podfit.apiserver.auth.node import NodeGraph
from podfit.apiserver.auth.roles.rbac import Rbac
from podfit.apiserver.representation import wire
from podfit.apiserver.services.addresses import ServiceAddresses
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import each, usable
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Mismatch

_SERVICE, _CLAIM = kind_named("Service"), kind_named("PersistentVolumeClaim")
_CLUSTER_ROLE = kind_named("ClusterRole")
_RBAC = {
    kind.storage_prefix: kind
    for kind in (_CLUSTER_ROLE, *(kind_named(name) for name in ("Role", "RoleBinding", "ClusterRoleBinding")))
}
FOLLOWED = (POD.storage_prefix, _CLAIM.storage_prefix, _SERVICE.storage_prefix, *_RBAC)
"""The resources whose changes are processed."""


class DerivedState:
    def __init__(self, objects: Objects, rbac: Rbac, graph: NodeGraph, addresses: ServiceAddresses) -> None:
        self._objects, self._rbac, self._graph, self._addresses = objects, rbac, graph, addresses
        self._tasks = Tasks("derived state")
        self._collecting = False

    def load(self) -> None:
        """Reads the store. Unusable objects are skipped with a warning."""
        for kind in _RBAC.values():
            stored = usable(kind, self._objects.list(kind))
            each(kind, stored, partial(self._rbac.changed, kind.kind, None))
        each(POD, self._objects.list(POD), partial(self._graph.pod_changed, None))
        each(_CLAIM, self._objects.list(_CLAIM), partial(self._graph.claim_changed, None))
        each(_SERVICE, self._objects.list(_SERVICE), self._addresses.learn)

    async def resync(self) -> None:
        """Rebuilds the state from the store, without yielding to other tasks."""
        for part in (self._rbac, self._graph, self._addresses):
            part.clear()
        self.load()

    async def stop(self) -> None:
        await self._tasks.stop()

    def changed(self, event: WatchEvent) -> None:
        """Called by the hub for each change."""
        resource = event.resource
        if resource == POD.storage_prefix:
            self._graph.pod_changed(event.old, event.new)
        elif (kind := _RBAC.get(resource)) is not None:
            self._rbac.changed(kind.kind, event.old, event.new)
            if kind is _CLUSTER_ROLE and not self._collecting:
                self._collecting = True
                self._tasks.start(self.collect_rules(), "collect rules")
        elif resource == _CLAIM.storage_prefix:
            self._graph.claim_changed(event.old, event.new)
        else:
            self._addresses.changed(event)

    async def collect_rules(self) -> None:
        """Writes the rules of aggregated roles if they differ from the stored ones."""
        self._collecting = False
        for name, rules in self._rbac.stale_aggregates():
            record = self._objects.record(_CLUSTER_ROLE, "", name)
            if record is None:
                continue
            role = wire.object_of(record)
            role["rules"] = rules
            try:
                await self._objects.put(_CLUSTER_ROLE, record.key, role, record.modified)
            except Mismatch:
                continue  # The concurrent write triggers the next pass.
