"""Decodes the store's records to objects, and caches these so that each record is decoded once.

The cache holds the newest state of each object and, for comparisons, the previous one. It is bounded in number and in
stored bytes, because a client may make each object megabytes large. The least recently used objects are evicted first.
Objects that components of this process hold anyway (`Stripped`) are kept beyond that: the whole object needs little
additional memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container
from weakref import WeakValueDictionary

from podfit.api.objects import FrozenDict, Object, freeze
from podfit.api.patches.apply.parts import SharedFieldSets
from podfit.api.registry.kinds import EVENT
from podfit.apiserver.representation import wire
from podfit.store.backend import Record

_CACHED, _CACHED_EVENTS = 1024, 128
_EVENTS = EVENT.storage_prefix


class Stripped(FrozenDict):
    """An object without managedFields, for watchers in this process: these are half of an object, and no component
    reads them. It shares everything else with the whole object, and references it."""

    __slots__ = ("__weakref__", "at", "whole")

    def __init__(self, whole: Object, at: int) -> None:
        """`at` is the revision it describes."""
        meta = dict(whole["metadata"])
        meta.pop("managedFields", None)
        if meta.get("resourceVersion") != (revision := str(at)):
            meta["resourceVersion"] = revision
        super().__init__(whole, metadata=freeze(meta))
        self.whole, self.at = whole, at


AVERAGE = 16 * 1024
"""The average size of an object if the cache is full by both limits."""


class ObjectCache:
    def __init__(self, limit: int) -> None:
        self._limit, self._room = limit, limit * AVERAGE
        self._known: OrderedDict[str, tuple[int, Object, int, Object | None, int]] = OrderedDict()
        """By key: revision and object of the newest and the previous state, and the bytes of both."""
        self._bytes = 0
        self._kept: WeakValueDictionary[str, Stripped] = WeakValueDictionary()
        self._fields = SharedFieldSets()

    def get(self, record: Record) -> Object | None:
        """Shared: read only."""
        known = self._known.get(record.key)
        if known is None:
            return self._kept_elsewhere(record)
        if known[0] == record.modified:
            self._known.move_to_end(record.key)
            return known[1]
        return known[3] if known[2] == record.modified else None

    def _kept_elsewhere(self, record: Record) -> Object | None:
        stripped = self._kept.get(record.key)
        if stripped is None or stripped.at != record.modified:
            return None
        return self.put(record, stripped.whole)

    def put(self, record: Record, obj: Object) -> Object:
        """`obj` is the decoded `record`; from now on it is shared, like the returned object."""
        obj = freeze(obj)
        key, at = record.key, record.modified
        known, size = self._known.get(key), len(record.value)
        if known is None:
            self._known[key] = (at, obj, 0, None, size)
        elif known[0] < at:
            # The previous state is counted with the same size; it is hardly ever larger.
            self._known[key] = (at, obj, known[0], known[1], 2 * size)
            self._known.move_to_end(key)
            size = 2 * size - known[4]
        else:
            return obj
        self._bytes += size
        while len(self._known) > self._limit or self._bytes > self._room:
            self._bytes -= self._known.popitem(last=False)[1][4]
        return obj

    def strip(self, record: Record, obj: Object) -> Stripped:
        """The object of `record` for components of this process. As long as one holds it, the whole object is
        available.
        """
        before = self._kept.get(record.key)
        if before is not None and before.at >= record.modified:
            # The record is older than the cached state: a watch is catching up with the log.
            return before if before.at == record.modified else Stripped(obj, record.modified)
        whole = self._with_shared_sets(obj, before)
        known = self._known.get(record.key)
        if known is not None and known[1] is obj:
            self._known[record.key] = (known[0], whole, *known[2:])
        stripped = self._kept[record.key] = Stripped(whole, record.modified)
        return stripped

    def _with_shared_sets(self, obj: Object, before: Stripped | None) -> Object:
        """The object with deduplicated sets of owned fields, which make up most of what a whole object has beyond the
        stripped one."""
        entries = _entries(obj)
        if not entries:
            return obj
        known = {id(entry.get("fieldsV1")) for entry in _entries(before.whole)} if before is not None else ()
        shared = [self._with_shared_set(entry, known) for entry in entries]
        return freeze({**obj, "metadata": {**obj["metadata"], "managedFields": shared}})

    def _with_shared_set(self, entry: Object, known: Container[int]) -> Object:
        fields = entry.get("fieldsV1")
        if id(fields) in known or not isinstance(fields, dict):
            return entry
        return {**entry, "fieldsV1": self._fields.shared(fields)}


def _entries(obj: Object) -> list[Object]:
    return obj["metadata"].get("managedFields") or []


class DecodedObjects:
    """Decodes records, each once for all its readers: verbs, admission plugins and watchers."""

    def __init__(self) -> None:
        self._cache = ObjectCache(_CACHED)
        self._events = ObjectCache(_CACHED_EVENTS)
        """A separate cache for Events, which are numerous and rarely read again: they must not evict all other
        objects."""
        self._being_written: dict[str, tuple[bytes, Object]] = {}
        """By key, with their stored bytes."""

    def of(self, record: Record) -> Object:
        """Shared: read only."""
        cache = self._events if record.key.startswith(_EVENTS) else self._cache
        known = cache.get(record)
        if known is not None:
            return known
        written = self._being_written.get(record.key)
        if written is not None and written[0] is record.value:
            obj = _at(record, written[1])
        else:
            obj = wire.object_of(record)
        return cache.put(record, obj)

    def strip(self, record: Record, obj: Object) -> Stripped:
        """The object of `record` for components of this process."""
        return self._cache.strip(record, obj)

    def begin_write(self, key: str, value: bytes, obj: Object) -> None:
        """Keeps the object until `end_write`: watchers are notified before the write returns, and need not decode it
        again."""
        self._being_written[key] = (value, obj)

    def end_write(self, key: str, value: bytes) -> None:
        if (written := self._being_written.get(key)) is not None and written[0] is value:
            del self._being_written[key]


def _at(record: Record, obj: Object) -> Object:
    """The object with the revision of the record. Its metadata is copied, because another object may share it."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(record.modified)}}
