"""Decoded objects by the records that hold them: the newest state of each and, for those who compare, the one before.

As many as the limit says; those that nobody asked for longest go first. Beyond them the newest states that parts of
this process keep anyway (`Bare`): what the server needs besides to have the whole object is little.
"""

from __future__ import annotations

from collections import OrderedDict
from weakref import WeakValueDictionary

from podfit.api.patches.apply.parts import Parts
from podfit.api.status import Object
from podfit.store.backend import Record


class Bare(Object):
    """An object without managedFields, as watchers in this process get it: these are half of an object, and no part
    asks who wrote a field. It shares all else with the whole object, and holds on to it."""

    __slots__ = ("__weakref__", "at", "whole")

    def __init__(self, whole: Object, at: int) -> None:
        """`at` is the revision that it tells of."""
        meta = dict(whole["metadata"])
        meta.pop("managedFields", None)
        if meta.get("resourceVersion") != (revision := str(at)):
            meta["resourceVersion"] = revision
        super().__init__(whole, metadata=meta)
        self.whole, self.at = whole, at


class Memory:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[str, tuple[int, Object, int, Object | None]] = OrderedDict()
        self._kept: WeakValueDictionary[str, Bare] = WeakValueDictionary()
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
        bare = self._kept.get(record.key)
        if bare is None or bare.at != record.modified:
            return None
        self.put(record, bare.whole)
        return bare.whole

    def put(self, record: Record, obj: Object) -> None:
        """`obj` is what `record` holds; from now on it is shared."""
        key, at = record.key, record.modified
        known = self._known.get(key)
        if known is None:
            self._known[key] = (at, obj, 0, None)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
        elif known[0] < at:
            self._known[key] = (at, obj, known[0], known[1])
            self._known.move_to_end(key)

    def bare(self, record: Record, obj: Object) -> Bare:
        """What `record` holds, for parts of this process. As long as one keeps it, the whole object is known."""
        self._share_fields(obj, self._kept.get(record.key))
        bare = self._kept[record.key] = Bare(obj, record.modified)
        return bare

    def _share_fields(self, obj: Object, before: Bare | None) -> None:
        """Puts equal sets of owned fields in place of those that came with this state: what makes up most of a whole
        object beyond the bare one is then kept once for all that are alike."""
        shared = {id(entry.get("fieldsV1")) for entry in _entries(before.whole)} if before is not None else ()
        for entry in _entries(obj):
            fields = entry.get("fieldsV1")
            if id(fields) not in shared and isinstance(fields, dict):
                entry["fieldsV1"] = self._fields.shared(fields)


def _entries(obj: Object) -> list[Object]:
    return obj["metadata"].get("managedFields") or []
