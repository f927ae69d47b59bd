"""Deduplicates equal parts of field sets.

Objects of one kind are written by the same few managers in the same ways: the sets of thousands of them differ in
little (the address of a pod, the name of a label), and are half of each object. Sets are never modified in place, so
they may share parts.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import freeze
from podfit.api.patches.apply.fieldset import FieldSet

_PARTS = 16384


class SharedFieldSets:
    def __init__(self, limit: int = _PARTS) -> None:
        """A full table is cleared: later sets then share parts with each other, not with earlier ones."""
        self._limit = limit
        self._parts: dict[tuple[Any, ...], FieldSet] = {}
        """By their elements and the identities of their children, to which they hold references."""

    def shared(self, fields: FieldSet) -> FieldSet:
        """An equal set with the same order. A malformed set, as a client may send it, is returned unchanged."""
        nodes = [self.shared(node) if isinstance(node, dict) else node for node in fields.values()]
        key = (*fields, *map(id, nodes))
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= self._limit:
                self._parts.clear()
            found = self._parts[key] = freeze(dict(zip(fields, nodes, strict=True)))
        return found
