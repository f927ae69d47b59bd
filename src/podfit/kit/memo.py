"""A bounded memo of a pure function, for modules: the one kind of state that may live below `compose`.

A value depends on its key alone and is never changed, so two clusters in one process that share a memo cannot notice
each other. It is filled by hand where a key is cheaper to make than the arguments are to hash or to keep.
"""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(dict[Key, Value]):
    def __init__(self, limit: int) -> None:
        """Beyond the limit it starts over: least-recently-used order would cost more than it saves."""
        super().__init__()
        self._limit = limit

    def keep(self, key: Key, value: Value) -> Value:
        if len(self) >= self._limit:
            self.clear()
        self[key] = value
        return value
