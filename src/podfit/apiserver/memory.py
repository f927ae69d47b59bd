"""Decoded objects by the records that hold them: the newest state of each and, for those who compare, the one before.

As many as the limit says; those that nobody asked for longest go first.
"""

from __future__ import annotations

from collections import OrderedDict

from podfit.api.status import Object
from podfit.store.backend import Record


class Memory:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[str, tuple[int, Object, int, Object | None]] = OrderedDict()

    def get(self, record: Record) -> Object | None:
        """Shared: read only."""
        known = self._known.get(record.key)
        if known is None:
            return None
        if known[0] == record.modified:
            self._known.move_to_end(record.key)
            return known[1]
        return known[3] if known[2] == record.modified else None

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
