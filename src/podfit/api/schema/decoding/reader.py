"""The typed decoder: a type is compiled to one closure over a table of its fields.

A reader tracks no paths and composes no errors unless it is given `Notes`. Almost all objects have no errors: they are
decoded once, without notes. On any problem (an unknown field, a wrong type, an invalid quantity) `HasProblems` is
raised, and the caller decodes the object again with the same reader, with notes.

The input is never modified, and shared with the output only below free-form values and where it is part of a `base`, an
object that was decoded before: parts that a patch did not change need not be decoded again. Nothing is shared of an
input that belongs to another component (the base is `OTHERS`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any

from podfit.api.schema import type_named
from podfit.api.schema.decoding import unions
from podfit.api.schema.decoding.notes import Notes, plain
from podfit.api.schema.decoding.scalars import READERS, Unreadable, WrongType
from podfit.api.schema.types import Field, ListOf, MapOf, Scalar, Struct, Type
from podfit.api.schema.zeros import UNIONS, dropped_when_empty, printed_when_unset, unset, zero_of

Reader = Callable[[Any, Any, Notes | None], Any]
"""(value, base, notes) → the typed value. Parts of the value that are identical to parts of the base are reused. With
notes, nothing is reused and nothing raises `HasProblems`."""
OTHERS: Any = object()
"""In place of a base: the value belongs to a caller that may modify it."""
_NEVER: Any = object()
_PLAIN = (str, int, float, bool)


class HasProblems(Exception):
    """The value has errors or warnings: it has to be decoded with notes."""


def reader(struct: Struct) -> Reader:
    found: Reader | None = struct.cache.get("reader")
    if found is None:
        found = struct.cache["reader"] = _struct_reader(struct)
    return found


def reader_of(kind: Type) -> Reader:
    if isinstance(kind, Struct):
        return reader(kind)
    if isinstance(kind, ListOf):
        return _list_reader(kind)
    if isinstance(kind, MapOf):
        return _map_reader(kind)
    return _read_raw if kind.form == "Raw" else _scalar_reader(kind)


class _Rows:
    """The fields of a struct by name (the reader of each, whether it is a string, and whether an empty value, or null,
    is dropped), and the fields that are printed even if unset."""

    __slots__ = ("always", "fields")

    def __init__(self, struct: Struct) -> None:
        self.fields: dict[str, tuple[Reader, bool, bool, bool]] = {}
        for name, row in struct.fields.items():
            is_string = isinstance(row.type, Scalar) and row.type.form == "string"
            drop = dropped_when_empty(row)
            self.fields[name] = reader_of(row.type), is_string, drop, drop or row.omit_zero
        self.always: list[tuple[str, Field, Any]] = [
            (row.name, row, unset(row)) for row in struct if printed_when_unset(row)
        ]


def _struct_reader(struct: Struct) -> Reader:
    rows: _Rows | None = None

    def read(value: Any, base: Any, notes: Notes | None) -> Any:
        nonlocal rows
        if rows is None:
            # Compiled lazily: types refer to themselves (JSONSchemaProps), so compiling them eagerly would not
            # terminate.
            rows = _Rows(struct)
        if value.__class__ is not dict and not isinstance(value, dict):
            return _wrong(value, struct, "struct", notes)
        fields = rows.fields
        known, before = (base, _NEVER) if base.__class__ is dict else (None, base)
        out: dict[str, Any] = {}
        for key, item in value.items() if notes is None else notes.items_of(value):
            if known is not None:
                before = known.get(key, _NEVER)
                if item is before:
                    out[key] = item
                    continue
            field = fields.get(key)
            if field is None:
                if notes is None:
                    raise HasProblems
                notes.unknown(key)
                continue
            if item is None:
                continue
            read_field, is_string, drop, drop_null = field
            if not is_string or item.__class__ is not str:
                if notes is None:
                    item = read_field(item, before, None)
                else:
                    notes.enter_field(key, struct.name)
                    item = read_field(item, before, notes)
                    notes.leave_field()
            if item or not (drop_null if item is None else drop):
                out[key] = item
        for name, row, zero in rows.always:
            if name not in out:
                # Structs are modified later: each object gets one of its own.
                out[name] = unset(row) if zero.__class__ is dict else zero
        return out

    return read


def _wrong(value: Any, kind: Type, shape: str, notes: Notes | None) -> Any:
    if notes is None:
        raise HasProblems
    return zero_of(kind) if value is None else notes.mismatch(value, kind, shape)


def _scalar_reader(kind: Scalar) -> Reader:
    full = partial(unions.READERS[kind.form], _schema) if kind.form in UNIONS else READERS[kind.form]
    exact = kind.form in ("Quantity", "Resource")

    def read(value: Any, base: Any, notes: Notes | None) -> Any:
        if notes is not None:
            return notes.scalar(value, kind, full)
        if exact and value.__class__ is float:
            raise HasProblems  # the notation of the fraction matters, and only decoding with notes preserves it
        try:
            return full(value)
        except (Unreadable, WrongType):
            raise HasProblems from None

    return read


def _schema(value: Any) -> Any:
    """Reads a schema inside a definition. Unknown fields are dropped silently; paths in errors start here."""
    notes = Notes()
    schema = reader(type_named("JSONSchemaProps", "apiextensions.k8s.io"))(value, None, notes)
    if notes.wrong is not None:
        raise Unreadable(notes.wrong)
    return schema


def _read_raw(value: Any, base: Any, notes: Notes | None) -> Any:
    if notes is not None:
        return plain(value)
    return _copied(value) if base is OTHERS else value


def _copied(value: Any) -> Any:
    if value.__class__ is dict:
        if any(key.__class__ is not str for key in value):
            raise HasProblems
        return {key: _copied(item) for key, item in value.items()}
    if value.__class__ is list:
        return [_copied(item) for item in value]
    if value is None or value.__class__ in _PLAIN:
        return value
    raise HasProblems


def _list_reader(kind: ListOf) -> Reader:
    read_item = reader_of(kind.item)

    def read(value: Any, base: Any, notes: Notes | None) -> Any:
        if value.__class__ is not list:
            return _wrong(value, kind, "slice", notes)
        if notes is not None:
            return [_inside(notes, at, item, kind.item, read_item) for at, item in enumerate(value)]
        if None in value:
            raise HasProblems
        if base.__class__ is not list:
            return [read_item(item, base, None) for item in value]
        pairs = zip_longest(value, base[: len(value)], fillvalue=_NEVER)
        return [item if item is before else read_item(item, before, None) for item, before in pairs]

    return read


def _inside(notes: Notes, place: str | int, item: Any, kind: Type, read_item: Reader) -> Any:
    """Reads an element of a list or a value of a map; null becomes the zero value."""
    notes.enter(place)
    read = zero_of(kind) if item is None else read_item(item, None, notes)
    notes.leave()
    return read


def _map_reader(kind: MapOf) -> Reader:
    read_item = reader_of(kind.value)
    of_strings, of_bytes = (isinstance(kind.value, Scalar) and kind.value.form == form for form in ("string", "bytes"))

    def read(value: Any, base: Any, notes: Notes | None) -> Any:
        if value.__class__ is not dict and not isinstance(value, dict):
            return _wrong(value, kind, "map", notes)
        if notes is not None:
            notes.duplicates(value)
            # The stored form distinguishes no bytes from empty bytes, except in a map.
            return {
                key: "" if item is None and of_bytes else _inside(notes, key, item, kind.value, read_item)
                for key, item in value.items()
            }
        known = base if base.__class__ is dict else None
        out = {}
        for key, item in value.items():
            if item is None or key.__class__ is not str:
                raise HasProblems
            if not of_strings or item.__class__ is not str:
                before = base if known is None else known.get(key, _NEVER)
                item = item if item is before else read_item(item, before, None)
            out[key] = item
        return out

    return read
