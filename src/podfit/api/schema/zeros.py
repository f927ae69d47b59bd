"""Zero values: how Go prints unset fields, and which values it omits."""

from __future__ import annotations

from typing import Any

from podfit.api.schema.types import Field, Scalar, Struct, Type

UNIONS = ("SchemaOrArray", "SchemaOrBool", "SchemaOrStrings")
ZERO: dict[str, Any] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0,
    "Quantity": "0",
    "Resource": "0",
    "IntOrString": 0,
    "Time": None,
    "MicroTime": None,
    "Duration": "0s",
    "bytes": None,
    "Raw": None,
    **dict.fromkeys(UNIONS),
}
NEVER_EMPTY = frozenset({"Quantity", "Resource", "IntOrString", "Time", "MicroTime", "Duration", "Raw", *UNIONS})
"""Go structs: omitempty does not omit them, pointer or not."""


def zero_of(kind: Type) -> Any:
    """Go's text for the zero value."""
    if isinstance(kind, Struct):
        return {name: unset(row) for name, row in kind.fields.items() if printed_when_unset(row)}
    return ZERO[kind.form] if isinstance(kind, Scalar) else None


def unset(row: Field) -> Any:
    """Go's text for an unset field: a nil pointer is null, whatever its type."""
    return None if row.pointer else zero_of(row.type)


def printed_when_unset(row: Field) -> bool:
    """Whether Go prints the field of a new struct."""
    if row.omit_zero:
        return False
    if not row.omit_empty:
        return True
    if row.pointer:
        return False
    kind = row.type
    return isinstance(kind, Struct) or (isinstance(kind, Scalar) and kind.form in NEVER_EMPTY)


def dropped_when_empty(row: Field) -> bool:
    """Whether an empty value (an empty string or list, 0, false) is dropped."""
    if row.pointer or not row.omit_empty or row.keep_empty or isinstance(row.type, Struct):
        return False
    return not (isinstance(row.type, Scalar) and row.type.form in NEVER_EMPTY)
