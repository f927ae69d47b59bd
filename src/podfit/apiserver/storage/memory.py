"""Decoded objects by the records that hold them: the newest state of each and, for those who compare, the one before.

As many as the limit says, and no more than they hold bytes in the store: a client may make each of them megabytes
large. The least recently used go first. Beyond them the newest states that parts of
this process keep anyway (`Stripped`): what the server needs besides to have the whole object is little.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container
from weakref import WeakValueDictionary

from podfit.api.objects import FrozenDict, Object, freeze
from podfit.api.patches.apply.parts import Parts
from podfit.store.backend import Record


class Stripped(FrozenDict):
    """An object without managedFields, as watchers in this process get it: these are half of an object, and no part
    asks who wrote a field. It shares all else with the whole object, and holds on to it."""

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
"""Bytes of an object, on average, when as many as the limit says are remembered."""


class Memory:
    def __init__(self, limit: int) -> None:
        self._limit, self._room = limit, limit * AVERAGE
        self._known: OrderedDict[str, tuple[int, Object, int, Object | None, int]] = OrderedDict()
        """By key: revision and object of the newest state and of the one before, and the bytes of both."""
        self._bytes = 0
        self._kept: WeakValueDictionary[str, Stripped] = WeakValueDictionary()
        self._fields = Parts()

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
        """`obj` is what `record` holds; from now on it is shared, as the object that is returned."""
        obj = freeze(obj)
        key, at = record.key, record.modified
        known, size = self._known.get(key), len(record.value)
        if known is None:
            self._known[key] = (at, obj, 0, None, size)
        elif known[0] < at:
            # The state before is counted as large as this one: it hardly ever is larger.
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
        """What `record` holds, for parts of this process. As long as one keeps it, the whole object is known."""
        whole = self._with_shared_sets(obj, self._kept.get(record.key))
        known = self._known.get(record.key)
        if known is not None and known[1] is obj:
            self._known[record.key] = (known[0], whole, *known[2:])
        stripped = self._kept[record.key] = Stripped(whole, record.modified)
        return stripped

    def _with_shared_sets(self, obj: Object, before: Stripped | None) -> Object:
        """The object with sets of owned fields that all objects which are alike share: they make up most of what a
        whole object has beyond the stripped one."""
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
