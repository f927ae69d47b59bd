"""A cache of messages of stored objects: encoded once for every revision of an object and shared by all requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from podfit.store.backend import Record

_BYTES = 96 << 20


class MessageCache:
    """The messages of the most recently requested objects."""

    def __init__(self, most_bytes: int = _BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._known: OrderedDict[tuple[str, str], tuple[int, bytes]] = OrderedDict()
        """By served version and key: the revision, and the message."""

    def of(self, api_version: str, record: Record, make: Callable[[Record], bytes]) -> bytes:
        key = api_version, record.key
        known = self._known.get(key)
        if known is not None and known[0] == record.modified:
            self._known.move_to_end(key)
            return known[1]
        data = make(record)
        if known is None or known[0] < record.modified:
            self._keep(key, record.modified, data, 0 if known is None else len(known[1]))
        return data

    def _keep(self, key: tuple[str, str], revision: int, data: bytes, replaced: int) -> None:
        self._known[key] = revision, data
        self._known.move_to_end(key)
        self._bytes += len(data) - replaced
        while self._bytes > self._most_bytes:
            _, (_, oldest) = self._known.popitem(last=False)
            self._bytes -= len(oldest)
