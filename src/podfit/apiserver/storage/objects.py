"""Reads and writes stored objects in decoded form, for verbs and plugins. Reads return the newest state.

Results of `get` and `list` are shared and must never be modified; a caller that modifies an object gets a new one from
`wire.object_of`. The cache of decoded objects holds a bounded number, and those that components of this process hold
anyway: it is never a second copy of the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT, Kind, Registry
from podfit.api.status import MODIFIED, ApiError, conflict, not_found
from podfit.apiserver.apis import conversion
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.views import Views
from podfit.apiserver.storage.hub import Hub
from podfit.apiserver.versions import Versions
from podfit.kit.clock import Clock
from podfit.store.backend import Mismatch, Record, Store

_SHORT, _SMALL, _LISTS = 16, 64 * 1024, 1024
"""Objects and bytes of a cached list, and the number of cached lists."""
EVENT_TTL_S = 3600.0
_EVENTS = EVENT.storage_prefix


class Objects:
    def __init__(self, store: Store, registry: Registry, hub: Hub, clock: Clock) -> None:
        self.store, self.registry, self.hub, self.clock = store, registry, hub, clock
        self.decoded = hub.decoded.of
        """The object of a record. Shared: read only."""
        self._lists: dict[str, tuple[int, tuple[Object, ...]]] = {}
        self._splicers: dict[Kind, wire.Splicer] = {}
        self._views: dict[tuple[str, str, str], Views] = {}
        self.versions = Versions()
        self.selectable: dict[tuple[str, str, str], frozenset[str]] = {}
        """By (group, version, plural) of custom resources: the selectable fields in their definitions."""

    # --- reading --------------------------------------------------------------------------------------------------

    def record(self, kind: Kind, namespace: str, name: str) -> Record | None:
        return self.store.get(kind.key(namespace, name))

    def required(self, kind: Kind, namespace: str, name: str) -> Record:
        record = self.record(kind, namespace, name)
        if record is None:
            raise not_found(kind.plural, name, kind.group)
        return record

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        record = self.record(kind, namespace, name)
        return None if record is None else self.decoded(record)

    def list(self, kind: Kind, namespace: str = "") -> Sequence[Object]:
        if kind.namespaced and not namespace:
            return [self.decoded(record) for record in self.store.scan(kind.storage_prefix)]
        folder = kind.key(namespace, "") if kind.namespaced else kind.storage_prefix
        known, state = self._lists.get(folder), self.store.touched(folder)
        if known is not None and known[0] == state:
            return known[1]
        records = self.store.scan(folder)
        found = tuple(self.decoded(record) for record in records)
        if len(found) <= _SHORT and sum(len(record.value) for record in records) <= _SMALL:
            # Resources that admission reads in every write: limit ranges, quotas, webhooks; usually there are none.
            if len(self._lists) >= _LISTS:
                self._lists.clear()
            self._lists[folder] = (state, found)
        return found

    def served(self, kind: Kind, record: Record) -> Object:
        """A new object in the version of the client."""
        obj = wire.object_of(record)
        return conversion.to_served(kind, obj)

    async def shown(self, kind: Kind, records: Sequence[Record]) -> Sequence[Record]:
        """Records in the version of the client, if conversion needs more than another apiVersion."""
        return await self.versions.served(kind, records) if kind.custom else records

    # --- writing --------------------------------------------------------------------------------------------------

    async def put(self, kind: Kind, key: str, obj: Object, expect: int) -> Record:
        """Stores; the object gets the new resourceVersion, and its contents are shared. Raises Mismatch."""
        stored = await self.versions.stored(kind, obj) if kind.custom else conversion.to_stored(kind, obj)
        if kind.custom and self.registry.of(kind.api_version, kind.kind) is None:
            # The kind's definition was deleted during the request: the object could be neither found nor deleted.
            raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
        value = wire.stored_value(stored)
        ttl_s = EVENT_TTL_S if kind.storage_prefix == _EVENTS else 0
        as_is = not kind.custom and not conversion.needed(kind)
        if as_is:
            self.hub.decoded.begin_write(key, value, obj)
        try:
            record = await self.store.put(key, value, expect, ttl_s)
            if as_is:
                self.decoded(record)
        finally:
            if as_is:
                self.hub.decoded.end_write(key, value)
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(record.modified)}
        return (await self.shown(kind, (record,)))[0] if kind.custom else record

    def equivalents(self, kind: Kind) -> Sequence[Kind]:
        """The other kinds under which the objects of this one are served."""
        return self.registry.equivalents(kind)

    async def convert(self, obj: Object, kind: Kind, other: Kind) -> Object:
        """An object as shown to clients of another kind with the same structure; `obj` itself is not modified."""
        if kind.custom:
            return await self.versions.convert(obj, kind, other)
        return conversion.to_served(other, conversion.to_stored(kind, dict(obj)))

    async def update_status(self, kind: Kind, obj: Object) -> Object:
        """Writes the status of `obj` if its resourceVersion is still the newest; 409 otherwise."""
        meta = obj["metadata"]
        record = self.required(kind, meta.get("namespace", ""), meta["name"])
        if str(record.modified) != meta.get("resourceVersion"):
            raise self.modified(kind, meta["name"])
        new = wire.object_of(record)
        new["status"] = obj.get("status", {})
        try:
            await self.put(kind, record.key, new, record.modified)
        except Mismatch:
            raise self.modified(kind, meta["name"]) from None
        return new

    @staticmethod
    def modified(kind: Kind, name: str) -> ApiError:
        return conflict(kind.plural, name, MODIFIED, kind.group)

    def views(self, kind: Kind) -> Views:
        key = (kind.group, kind.version, kind.plural)
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = Views(kind, self.selectable.get(key, frozenset()))
        return found

    def forget(self, kind: Kind) -> None:
        """Called when a custom kind changes or is removed."""
        self._views.pop((kind.group, kind.version, kind.plural), None)
        self._splicers.pop(kind, None)

    # --- bytes ----------------------------------------------------------------------------------------------------

    def splicer(self, kind: Kind) -> wire.Splicer:
        found = self._splicers.get(kind)
        if found is None:
            found = self._splicers[kind] = wire.Splicer(kind)
        return found
