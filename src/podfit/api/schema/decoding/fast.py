"""The quick way through typed decoding: valid objects without a surprise, which is nearly all of them.

A struct becomes one closure over a table of its fields. It keeps no paths and words no errors: whatever is not plain
(an unknown field, a wrong type, a bad quantity) raises `Surprise`, and `walk` then reads the object again, slowly.
The input is never changed, and shared with the output only below free-form values and where it is part of a `base`:
an object that was read before. What a patch left alone need not be read again. Of an input that is somebody else's
(the base is `OTHERS`) nothing is shared.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from podfit.api.schema.decoding.scalars import NEVER_EMPTY, READERS, ZERO, Unreadable, WrongType
from podfit.api.schema.types import Field, ListOf, MapOf, Scalar, Struct, Type

Reader = Callable[[Any, Any], Any]
"""(value, base) → the value as typed; parts of the value that are the very parts of the base are taken as they are."""
OTHERS: Any = object()
"""In place of a base: the value belongs to somebody who may change it."""
_NEVER: Any = object()
_PLAIN = (str, int, float, bool)


class Surprise(Exception):
    """Not for the quick way."""


def reader(struct: Struct) -> Reader:
    found = struct.cache.get("fast")
    if found is None:
        found = struct.cache["fast"] = _struct_reader(struct)
    return found


def zero_of(kind: Type) -> Any:
    """What Go prints for the zero value."""
    if isinstance(kind, Struct):
        return {name: unset(row) for name, row in kind.fields.items() if printed_when_unset(row)}
    return ZERO[kind.form] if isinstance(kind, Scalar) else None


def unset(row: Field) -> Any:
    """What Go prints for a field nobody set: a pointer to nothing is null, whatever it would point to."""
    return None if row.pointer else zero_of(row.type)


def printed_when_unset(row: Field) -> bool:
    """Whether Go prints the field of a fresh struct."""
    if row.omit_zero:
        return False
    if not row.omit_empty:
        return True
    if row.pointer:
        return False
    kind = row.type
    return isinstance(kind, Struct) or (isinstance(kind, Scalar) and kind.form in NEVER_EMPTY)


def dropped_when_empty(row: Field) -> bool:
    """Whether a given but empty value (an empty string or list, 0, false) vanishes."""
    if row.pointer or not row.omit_empty or isinstance(row.type, Struct):
        return False
    return not (isinstance(row.type, Scalar) and row.type.form in NEVER_EMPTY)


Rows = tuple[dict[str, tuple[Reader | None, bool]], list[tuple[str, Field, Any]]]


def _rows(struct: Struct) -> Rows:
    """How each field is read (None: it is a string) and whether empty values vanish, and what is printed even when
    unset."""
    fields: dict[str, tuple[Reader | None, bool]] = {}
    for name, row in struct.fields.items():
        is_string = isinstance(row.type, Scalar) and row.type.form == "string"
        fields[name] = (None if is_string else reader_of(row.type), dropped_when_empty(row))
    return fields, [(row.name, row, unset(row)) for row in struct if printed_when_unset(row)]


def _struct_reader(struct: Struct) -> Reader:
    rows: Rows | None = None

    def read(value: Any, base: Any) -> dict[str, Any]:
        nonlocal rows
        if rows is None:
            # Only now: types refer to themselves (JSONSchemaProps), so compiling them at once would not end.
            rows = _rows(struct)
        if value.__class__ is not dict:
            raise Surprise
        fields, always = rows
        known, before = (base, _NEVER) if base.__class__ is dict else (None, base)
        out: dict[str, Any] = {}
        for key, item in value.items():
            if known is not None:
                before = known.get(key, _NEVER)
                if item is before:
                    out[key] = item
                    continue
            field = fields.get(key)
            if field is None:
                raise Surprise
            if item is None:
                continue
            read_field, drop = field
            if read_field is not None:
                item = read_field(item, before)
            elif item.__class__ is not str:
                raise Surprise
            if item or not drop:
                out[key] = item
        for name, row, zero in always:
            if name not in out:
                # Structs are changed later on: each object gets one of its own.
                out[name] = unset(row) if zero.__class__ is dict else zero
        return out

    return read


def reader_of(kind: Type) -> Reader:
    if isinstance(kind, Struct):
        return reader(kind)
    if isinstance(kind, ListOf):
        return _list_reader(kind)
    if isinstance(kind, MapOf):
        return _map_reader(kind)
    return _scalar_reader(kind.form)


def _scalar_reader(form: str) -> Reader:
    if form == "string":
        return _string
    if form == "bool":
        return _bool
    if form == "Raw":
        return _raw
    full = READERS[form]
    exact = form in ("Quantity", "Resource")

    def read(value: Any, base: Any) -> Any:
        if exact and value.__class__ is float:
            raise Surprise  # how the fraction was written matters, and only the thorough way knows
        try:
            return full(value)
        except (Unreadable, WrongType):
            raise Surprise from None

    return read


def _string(value: Any, base: Any) -> str:
    if value.__class__ is str:
        return value
    raise Surprise


def _bool(value: Any, base: Any) -> bool:
    if value.__class__ is bool:
        return value
    raise Surprise


def _raw(value: Any, base: Any) -> Any:
    return _copied(value) if base is OTHERS else value


def _copied(value: Any) -> Any:
    if value.__class__ is dict:
        if any(key.__class__ is not str for key in value):
            raise Surprise
        return {key: _copied(item) for key, item in value.items()}
    if value.__class__ is list:
        return [_copied(item) for item in value]
    if value is None or value.__class__ in _PLAIN:
        return value
    raise Surprise


def _list_reader(kind: ListOf) -> Reader:
    item_reader = reader_of(kind.item)

    def read(value: Any, base: Any) -> list[Any]:
        if value.__class__ is not list or None in value:
            raise Surprise
        if base.__class__ is not list:
            return [item_reader(item, base) for item in value]
        pairs = zip_longest(value, base[: len(value)], fillvalue=_NEVER)
        return [item if item is before else item_reader(item, before) for item, before in pairs]

    return read


def _map_reader(kind: MapOf) -> Reader:
    item_reader = reader_of(kind.value)
    if item_reader is _string:

        def read_strings(value: Any, base: Any) -> dict[str, Any]:
            if value.__class__ is not dict:
                raise Surprise
            for key, item in value.items():
                if item.__class__ is not str or key.__class__ is not str:
                    raise Surprise
            return dict(value)

        return read_strings

    def read(value: Any, base: Any) -> dict[str, Any]:
        if value.__class__ is not dict:
            raise Surprise
        known = base if base.__class__ is dict else None
        out = {}
        for key, item in value.items():
            if item is None or key.__class__ is not str:
                raise Surprise
            before = base if known is None else known.get(key, _NEVER)
            out[key] = item if item is before else item_reader(item, before)
        return out

    return read
