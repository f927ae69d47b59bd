"""The quick way through a strategic merge patch: merged and typed in one pass.

`quick_merge` makes of a typed object what `strategic.merged` and typed decoding make of it one after the other. It
knows no directive but `$setElementOrder` and words no errors: whatever is not plain raises `Surprise`, and the caller
goes the long way. What the patch sets to what it is already is shared with the object, like all that it does not
name, so that later comparisons find it by its identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.api.patches.ordering import enforce_order, validate_order
from podfit.api.patches.strategic import DIRECTIVE, ORDER_PREFIX, merged_list, without_directives
from podfit.api.schema.decoding.fast import Reader, Surprise, dropped_when_empty, printed_when_unset, reader_of, unset
from podfit.api.schema.types import Field, ListOf, MapOf, Scalar, Struct

Merger = Callable[[Any, Any], Any]
"""(typed value, patch of it) → typed value; both maps, or both lists."""
_MISSING: Any = object()
_GONE: Any = object()
_NEW: Any = object()


def quick_merge(live: Object, patch: Object, struct: Struct) -> Object:
    """A new object, whose parts may be those of the live one. Raises Surprise, or the ApiError of a bad patch."""
    made: Object = _merger(struct)(live, patch)
    return dict(live) if made is live else made


@dataclass(slots=True)
class _Row:
    """How a field is merged."""

    field: Field
    read: Reader
    shape: type | None
    """dict or list, where values are merged; None for scalars."""
    merge: Merger
    drop: bool
    """Empty values vanish."""
    printed: bool
    """A field that is printed even when unset."""
    key: str
    """Of lists whose elements are merged by their names: the field that holds the name."""
    order: str
    """The directive about the order of these elements."""

    def keeps(self, empty: Any) -> bool:
        """Whether the field stays with an empty value."""
        return self.printed if empty is None else not self.drop


def _merger(struct: Struct) -> Merger:
    found = struct.cache.get("merge")
    if found is None:
        found = struct.cache["merge"] = _struct_merger(struct)
    return found  # type: ignore[no-any-return]


def _row(field: Field) -> _Row:
    kind, read = field.type, reader_of(field.type)
    shape: type | None = None if isinstance(kind, Scalar) else list if isinstance(kind, ListOf) else dict
    merge: Merger = lambda before, value: read(value, before)  # noqa: E731
    key = order = ""
    if isinstance(kind, ListOf) and field.merge:
        if isinstance(kind.item, Struct) and field.merge_key:
            key, order = field.merge_key, ORDER_PREFIX + field.name
            merge = _list_merger(key, kind.item)
        else:
            merge = lambda before, value: read(merged_list(before, value, field), before)  # noqa: E731
    elif isinstance(kind, Struct) and not field.replace:
        merge = _merger(kind)
    elif isinstance(kind, MapOf) and not field.replace:
        merge = _map_merger(kind)
    return _Row(field, read, shape, merge, dropped_when_empty(field), printed_when_unset(field), key, order)


def _struct_merger(struct: Struct) -> Merger:
    rows: dict[str, _Row] = {}
    always: dict[str, Field] = {}

    def merge(document: Object, patch: Object) -> Object:
        if not rows:
            # Only now: types refer to themselves.
            rows.update((name, _row(field)) for name, field in struct.fields.items())
            always.update((name, row.field) for name, row in rows.items() if row.printed)
        out: Object = document
        for name, value in patch.items():
            row = rows.get(name)
            if row is None:
                _expect_order(name, document, patch, rows)
                continue
            before, form = document.get(name, _MISSING), value.__class__
            if form is dict or form is list:
                item = _inside(row, before, value, patch)
            elif form is before.__class__ and value == before and (value or row.keeps(value)):
                continue
            else:
                item = _scalar(row, before, value)
            if item is before or (item is _GONE and before is _MISSING):
                continue
            out = _with(out, document, name, item)
        if not out.keys() >= always.keys():
            out = {**out, **{name: unset(field) for name, field in always.items() if name not in out}}
        return out

    return merge


def _with(out: Object, document: Object, name: str, item: Any) -> Object:
    """`out` with another item; the document itself is copied first."""
    if out is document:
        out = dict(document)
    if item is _GONE:
        del out[name]
    else:
        out[name] = item
    return out


def _inside(row: _Row, before: Any, value: Any, patch: Object) -> Any:
    """The new value of a field that is patched with a map or a list; `_GONE` where it vanishes."""
    if value.__class__ is not row.shape:
        raise Surprise
    known = before.__class__ is value.__class__
    item = row.merge(before, value) if known else row.read(without_directives(value), before)
    if row.order and row.order in patch:
        if not known:
            _expect_names(value, row.key)
        item = _ordered(item, value, patch[row.order], before if known else [], row.key)
    return _GONE if row.drop and not item else item


def _scalar(row: _Row, before: Any, value: Any) -> Any:
    """The new value of a field that is patched with a scalar or a null; `before` itself where it stays."""
    if value is None:
        if not row.printed:
            return _GONE
        item = unset(row.field)
    else:
        item = row.read(value, before)
        if row.drop and not item:
            return _GONE
    return before if item.__class__ is before.__class__ and item == before else item


def _expect_order(name: str, document: Object, patch: Object, rows: dict[str, _Row]) -> None:
    """An unknown field is no surprise where it orders a list that is patched."""
    if name.startswith(ORDER_PREFIX):
        target = name[len(ORDER_PREFIX) :]
        row, before = rows.get(target), document.get(target)
        fits = before is None or before.__class__ is list
        if fits and row is not None and row.order and patch.get(target).__class__ is list:
            return
    raise Surprise


def _ordered(items: list[Any], given: Any, order: Any, server: Any, key: str) -> list[Any]:
    """The merged list in the order the patch wants; mostly it is in that order already."""
    if order.__class__ is not list:
        raise Surprise
    names = [each.get(key) if each.__class__ is dict else _MISSING for each in order]
    if names != [each[key] for each in given]:
        validate_order(given, order, key)
    return items if names == [each[key] for each in items] else enforce_order(items, order, server, key)


def _expect_names(items: Any, key: str) -> None:
    """A list that is new was not merged: that each name comes once remains to be seen."""
    if len({_name_in(each, key) for each in items}) < len(items):
        raise Surprise


def _list_merger(key: str, struct: Struct) -> Merger:
    read, merge_item = reader_of(struct), _merger(struct)

    def merge(document: list[Any], patch: list[Any]) -> list[Any]:
        places = _places(document, key)
        out, at, in_order = document, -1, True
        for item in patch:
            name = _name_in(item, key)
            place = places.get(name)
            if place is None:
                places[name] = _NEW
                if out is document:
                    out = list(document)
                out.append(read(without_directives(item), None))
                in_order = False
                continue
            if place is _NEW:
                raise Surprise
            in_order, at = in_order and place > at, place
            made = merge_item(out[place], item)
            if made is not out[place]:
                if out is document:
                    out = list(document)
                out[place] = made
        return out if in_order else enforce_order(out, patch, document, key)

    return merge


def _name_in(item: Any, key: str) -> str | int:
    """Of a plain element of a patch: an empty name would vanish."""
    if item.__class__ is dict and DIRECTIVE not in item:
        name = item.get(key)
        if name and (name.__class__ is str or name.__class__ is int):
            return name
    raise Surprise


def _places(document: list[Any], key: str) -> dict[Any, int]:
    """Where the element of each name is."""
    try:
        places = {item[key]: place for place, item in enumerate(document)}
    except (KeyError, TypeError):
        raise Surprise from None
    if len(places) != len(document):
        raise Surprise
    return places


def _map_merger(kind: MapOf) -> Merger:
    read = reader_of(kind.value)

    def merge(document: Object, patch: Object) -> Object:
        out = document
        for name, value in patch.items():
            if name.startswith("$") or value.__class__ is dict or value.__class__ is list:
                raise Surprise
            before = document.get(name, _MISSING)
            if value is None:
                item = _MISSING if before is _MISSING else _GONE
            else:
                item = read(value, before)
            if item is not before and (item.__class__ is not before.__class__ or item != before):
                out = _with(out, document, name, item)
        return out

    return merge
