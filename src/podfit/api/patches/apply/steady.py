"""Owners that stay: a manager changes fields that are its own already, and its alone, as agents do all day.

One walk over what differs finds that out and makes no set of fields on its way. Whatever else happens (a field comes or
goes, or somebody else owns it, too) raises `Surprise`, and `track_update` goes the thorough way, with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podfit.api.patches.apply.fieldset import FieldSet, Patterns, is_member
from podfit.api.patches.apply.managers import MOST_UPDATERS, Identity, as_written, is_of, place
from podfit.api.patches.apply.typed import Row, element_of, granular, row_of, rows_of
from podfit.api.schema.fast import Surprise
from podfit.api.schema.types import MAP, ListOf, Struct, Type
from podfit.api.status import Object

_MISSING: Any = object()
_SURPRISE = Surprise()


class Scope:
    """The places whose fields count: all but these or, with `only`, these."""

    __slots__ = ("only", "places")

    def __init__(self, places: Patterns, only: bool) -> None:
        self.places, self.only = places, only


def renewed(
    live: Object, new: Object, struct: Struct, scope: Scope, entries: list[Object], who: Identity, time: str
) -> list[Object] | None:
    """The entries after a write of this manager: at most its time differs.

    None when more may, or when reading and writing would not give back the very same entries.
    """
    if len(entries) > MOST_UPDATERS:
        return None
    mine, others = None, []
    for index, entry in enumerate(entries):
        if not as_written(entry):
            return None
        if not is_of(entry, who):
            others.append(entry["fieldsV1"])
        elif mine is None:
            mine = index
        else:
            return None
    try:
        touched = _Walk(scope.only).fields(
            live, new, struct, {} if mine is None else entries[mine]["fieldsV1"], others, scope.places
        )
    except Surprise:
        return None
    if not touched or mine is None or entries[mine].get("time") == time:
        return entries
    made = list(entries)
    made[mine] = {**entries[mine], "time": time}
    made.sort(key=place)
    return made


class _Walk:
    """Each step says whether any field differs below, and raises unless those that do are `mine` and not `others`."""

    __slots__ = ("_only",)

    def __init__(self, only: bool) -> None:
        self._only = only

    def fields(
        self, old: Object, new: Object, kind: Type, mine: FieldSet, others: Sequence[FieldSet], places: Patterns | None
    ) -> bool:
        if len(old) != len(new):
            raise _SURPRISE
        rows, touched = rows_of(kind), False
        for name, item in new.items():
            before = old.get(name, _MISSING)
            if before is item or before == item:
                continue
            if before is _MISSING:
                raise _SURPRISE
            row = rows.get(name) or row_of(kind, name)
            if row is None:
                continue
            if places is None and not row[2]:
                touched = _is_own(row[0], mine, others)
            elif self._field(before, item, row, mine, others, places):
                touched = True
        return touched

    def _items(
        self, old: Any, new: Any, kind: ListOf, mine: FieldSet, others: Sequence[FieldSet], places: Patterns | None
    ) -> bool:
        if kind.relation != MAP or old.__class__ is not list or new.__class__ is not list or len(old) != len(new):
            raise _SURPRISE
        elements = [element_of(item, kind) for item in new]
        if len(set(elements)) < len(elements):
            raise _SURPRISE
        inside, touched = granular(kind.item), False
        for before, item, element in zip(old, new, elements, strict=True):
            if before is item:
                continue
            if element_of(before, kind) != element:
                raise _SURPRISE
            row = (element, kind.item, inside)
            if before != item and self._field(before, item, row, mine, others, places):
                touched = True
        return touched

    def _field(
        self, old: Any, new: Any, row: Row, mine: FieldSet, others: Sequence[FieldSet], places: Patterns | None
    ) -> bool:
        """Of a field or item that differs."""
        element, kind, inside = row
        deeper = None
        if places is not None:
            deeper = places.get(element, places.get("*"))
            if self._only:
                if deeper is None or (deeper and not inside):
                    return False
                deeper = deeper or None
            elif deeper is not None and not deeper:
                return False
        if not inside:
            return _is_own(element, mine, others)
        node = mine.get(element)
        if node is None:
            raise _SURPRISE
        theirs = [each[element] for each in others if element in each] if others else others
        if isinstance(kind, ListOf):
            return self._items(old, new, kind, node, theirs, deeper)
        if old.__class__ is dict and new.__class__ is dict:
            return self.fields(old, new, kind, node, theirs, deeper)
        raise _SURPRISE


def _is_own(element: str, mine: FieldSet, others: Sequence[FieldSet]) -> bool:
    """True, or a surprise."""
    node = mine.get(element)
    if node is None or not is_member(node):
        raise _SURPRISE
    for each in others:
        theirs = each.get(element)
        if theirs is not None and is_member(theirs):
            raise _SURPRISE
    return True
