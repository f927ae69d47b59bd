"""A bounded cache of a pure function, for modules: the only kind of state allowed below `compose`.

A value depends on its key only and is never modified, so two clusters in one process that share a cache cannot affect
each other. The caller fills it, for keys that are cheaper to compute than the arguments are to hash or to retain.
"""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(dict[Key, Value]):
    def __init__(self, limit: int) -> None:
        """A full cache is cleared: least-recently-used order would cost more than it saves."""
        super().__init__()
        self._limit = limit

    def keep(self, key: Key, value: Value) -> Value:
        if len(self) >= self._limit:
            self.clear()
        self[key] = value
        return value
