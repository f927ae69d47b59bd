"""Values seen through their types: the fields that an object sets, differences, merge and removal.

Structs and maps are granular unless their type is atomic; lists are atomic unless they are sets or associative.
Free-form values are single leaves. Nothing is modified in place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from podfit.api.patches.apply.fieldset import SELF, FieldSet, is_member
from podfit.api.schema.types import ATOMIC, GRANULAR, MAP, RAW, SET, ListOf, MapOf, Struct, Type
from podfit.api.schema.zeros import zero_of

_MISSING: Any = object()


def granular(kind: Type) -> bool:
    """Whether apply descends into values of this type."""
    if isinstance(kind, Struct):
        return not kind.atomic
    if isinstance(kind, MapOf):
        return kind.relation == GRANULAR
    return isinstance(kind, ListOf) and kind.relation != ATOMIC


def field_type(kind: Type, name: str) -> Type | None:
    """The type of a field or of a map's values; None for a field that the struct does not have."""
    if isinstance(kind, Struct):
        row = kind.fields.get(name)
        if row is not None:
            return row.type
        return RAW if kind.preserve_unknown else None
    return kind.value if isinstance(kind, MapOf) else RAW


Row = tuple[str, Type, bool]
"""A field as used by sets and comparisons: its element, its type, and whether apply descends into it."""


def _rows(kind: Type) -> Mapping[str, Row]:
    """The known fields by name; those of maps and free-form values are added when they occur (`_row`)."""
    if not isinstance(kind, Struct):
        return _NO_ROWS
    rows: dict[str, Row] | None = kind.cache.get("owned")
    if rows is None:
        rows = {name: ("f:" + name, row.type, granular(row.type)) for name, row in kind.fields.items()}
        kind.cache["owned"] = rows
    return rows


_NO_ROWS: Mapping[str, Row] = {}


def _row(kind: Type, name: str) -> Row | None:
    below = field_type(kind, name)
    return None if below is None else ("f:" + name, below, granular(below))


def key_default(kind: ListOf, key: str) -> Any:
    """The identity of an element that omits the key: the default, or the zero value of a field that is always written;
    None for neither."""
    row = kind.item.fields.get(key) if isinstance(kind.item, Struct) else None
    if row is None or row.default is not None:
        return None if row is None else row.default
    return None if row.omit_empty or row.pointer else zero_of(row.type)


def element_of(item: Any, kind: ListOf) -> str:
    """The name of a list item in a field set."""
    if kind.relation == SET:
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    keys: list[Any] = []
    for key in kind.keys:
        value = item.get(key) if isinstance(item, dict) else None
        if value is None:
            value = key_default(kind, key)
        if value is not None:
            keys += (key, value)
    try:
        return _named(*keys)
    except TypeError:  # a key that is not a scalar, from a schema that allows it
        return _named.__wrapped__(*keys)


@lru_cache(maxsize=4096, typed=True)
def _named(*keys: Any) -> str:
    """The element for a list item, from its keys and values alternately. Cached: every write has the same few."""
    named = dict(zip(keys[::2], keys[1::2], strict=True))
    return "k:" + json.dumps(named, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def whole(value: Any, kind: Type) -> FieldSet:
    """The node of a new value: itself and everything below it."""
    if not value or not granular(kind):
        return {}
    node: FieldSet = {SELF: {}}
    if isinstance(value, dict):
        rows = _rows(kind)
        for name, item in value.items():
            row = rows.get(name) or _row(kind, name)
            if row is not None:
                node[row[0]] = whole(item, row[1]) if row[2] and item else {}
    elif isinstance(value, list) and isinstance(kind, ListOf):
        for item in value:
            node[element_of(item, kind)] = whole(item, kind.item) if kind.relation == MAP else {}
    return node if len(node) > 1 else {}


def applied_set(value: Any, kind: Type) -> FieldSet:
    """The fields that an applied configuration claims. Structs are claimed through their fields."""
    out: FieldSet = {}
    if isinstance(value, dict):
        in_struct = isinstance(kind, Struct)
        for name, item in value.items():
            below = field_type(kind, name)
            if below is None:
                continue
            node = _claimed(item, below)
            if node is not None:
                out["f:" + name] = node if in_struct or not node else {SELF: {}, **node}
    elif isinstance(value, list) and isinstance(kind, ListOf):
        for item in value:
            node = applied_set(item, kind.item) if kind.relation == MAP else {}
            out[element_of(item, kind)] = {SELF: {}, **node} if node else {}
    return out


def _claimed(value: Any, kind: Type) -> FieldSet | None:
    if value is None or not granular(kind) or value == {}:
        return {}
    return applied_set(value, kind) or None


def compare(old: Any, new: Any, kind: Type) -> tuple[FieldSet, FieldSet]:
    """The fields that the new value sets or changes, and those that it removed, as sets below the value."""
    if isinstance(kind, ListOf):
        return _compare_items(_by_element(old, kind), _by_element(new, kind), kind)
    touched: FieldSet = {}
    removed: FieldSet = {}
    old = old if isinstance(old, dict) else {}
    new = new if isinstance(new, dict) else {}
    rows, added = _rows(kind), 0
    for name, item in new.items():
        before = old.get(name, _MISSING)
        if before is item or before == item:
            continue
        if before is _MISSING:
            added += 1
        row = rows.get(name) or _row(kind, name)
        if row is None:
            continue
        if row[2]:
            _compare_inside(before, item, row, touched, removed)
        else:
            touched[row[0]] = {}
    if len(old) + added > len(new):
        for name, item in old.items():
            if name not in new and (row := rows.get(name) or _row(kind, name)) is not None:
                removed[row[0]] = whole(item, row[1])
    return touched, removed


def _by_element(items: Any, kind: ListOf) -> dict[str, Any]:
    return {element_of(item, kind): item for item in items} if isinstance(items, list) else {}


def _compare_items(before: dict[str, Any], after: dict[str, Any], kind: ListOf) -> tuple[FieldSet, FieldSet]:
    touched: FieldSet = {}
    removed: FieldSet = {}
    below, inside = (kind.item, granular(kind.item)) if kind.relation == MAP else (RAW, False)
    for element, item in after.items():
        old = before.get(element, _MISSING)
        if old is item or (old is not _MISSING and old == item):
            continue
        if inside:
            _compare_inside(old, item, (element, below, True), touched, removed)
        else:
            touched[element] = {}
    for element, item in before.items():
        if element not in after:
            removed[element] = whole(item, below)
    return touched, removed


def _compare_inside(old: Any, new: Any, row: Row, touched: FieldSet, removed: FieldSet) -> None:
    """Like `compare`, for a field or item that differs or is new, and into which apply descends."""
    element, kind, _ = row
    if old is _MISSING:
        touched[element] = whole(new, kind)
        return
    more, less = compare(old, new, kind)
    if more:
        touched[element] = more
    if less:
        removed[element] = less


def merge(old: Any, new: Any, kind: Type) -> Any:
    """The live value merged with an applied configuration."""
    if new is None and old and granular(kind):
        return old  # a configuration without any fields below this one
    if new is None or old is None or not granular(kind):
        return new
    if isinstance(new, dict) and isinstance(old, dict):
        out = dict(old)
        for name, item in new.items():
            below = field_type(kind, name)
            out[name] = merge(out.get(name), item, below) if below is not None else item
        return out
    if isinstance(new, list) and isinstance(old, list) and isinstance(kind, ListOf):
        return _merge_items(old, new, kind)
    return new


def _merge_items(old: list[Any], new: list[Any], kind: ListOf) -> list[Any]:
    """Applied items are in the order applied; the others keep their position before the next common one."""
    ours = [(element_of(item, kind), item) for item in new]
    theirs = [(element_of(item, kind), item) for item in old]
    applied, live = dict(ours), dict(theirs)
    out: list[Any] = []
    done: set[str] = set()
    at = 0
    for element, item in theirs:
        if element not in applied:
            out.append(item)
            continue
        while element not in done:
            name, mine = ours[at]
            at += 1
            if name not in done:
                done.add(name)
                out.append(merge(live.get(name), mine, kind.item) if kind.relation == MAP else mine)
    for name, mine in ours[at:]:
        if name not in done:
            done.add(name)
            out.append(merge(live.get(name), mine, kind.item) if kind.relation == MAP else mine)
    return out


def prune(value: Any, kind: Type, last: FieldSet, owned: FieldSet) -> Any:
    """The value without the fields that were applied last time and that no manager owns now."""
    if isinstance(value, dict):
        out = {}
        for name, item in value.items():
            element = "f:" + name
            kept = _pruned(item, field_type(kind, name) or RAW, last.get(element), owned.get(element), True)
            if kept is not _MISSING:
                out[name] = kept
        return out
    if isinstance(value, list) and isinstance(kind, ListOf):
        items = []
        for item in value:
            element = element_of(item, kind)
            kept = _pruned(item, kind.item, last.get(element), owned.get(element), False)
            if kept is not _MISSING:
                items.append(kept)
        return items
    return value


def _pruned(value: Any, kind: Type, last: FieldSet | None, owned: FieldSet | None, named: bool) -> Any:
    if last is None:
        return value
    if owned is None and (named or is_member(last)):
        return _MISSING
    return prune(value, kind, last, owned or {}) if granular(kind) else value
