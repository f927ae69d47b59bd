"""Field sets of which equal parts are kept once.

Objects of one kind are written by the same few in the same few ways: the sets of thousands of them differ in little
(the address of a pod, the name of a label), and are half of each object. Sets are never changed in place, so they may
share.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import freeze
from podfit.api.patches.apply.fieldset import FieldSet

_PARTS = 16384


class Parts:
    def __init__(self, limit: int = _PARTS) -> None:
        """Beyond the limit it starts over: sets that come later share with each other, not with those before."""
        self._limit = limit
        self._parts: dict[tuple[Any, ...], FieldSet] = {}
        """By their elements and the identities of what lies below, which they hold on to."""

    def shared(self, fields: FieldSet) -> FieldSet:
        """A set that is equal, down to the order. A malformed set, as a client may send it, stays as it is."""
        nodes = [self.shared(node) if isinstance(node, dict) else node for node in fields.values()]
        key = (*fields, *map(id, nodes))
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= self._limit:
                self._parts.clear()
            found = self._parts[key] = freeze(dict(zip(fields, nodes, strict=True)))
        return found
