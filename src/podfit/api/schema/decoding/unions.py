"""Fields of a CustomResourceDefinition's schema that contain a schema or something else, decoded as in Go.

A value that is neither is rejected only where Go rejects it: `items: "string"` is read as null. The schemas inside are
decoded by the reader that calls these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podfit.api.schema.decoding.scalars import Unreadable, json_word

Read = Callable[[Any], Any]
"""Decodes a schema."""


def schema_or_array(read_schema: Read, value: Any) -> Any:
    if isinstance(value, dict):
        return read_schema(value)
    return [read_schema(item) for item in value] or None if isinstance(value, list) else None


def schema_or_bool(read_schema: Read, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return read_schema(value)
    raise Unreadable("boolean or JSON schema expected")


def schema_or_strings(read_schema: Read, value: Any) -> Any:
    if isinstance(value, dict):
        return read_schema(value)
    if not isinstance(value, list):
        return None
    for item in value:
        if not isinstance(item, str | None):
            raise Unreadable(f"json: cannot unmarshal {json_word(item)} into Go value of type string")
    return [item or "" for item in value] or None


READERS: dict[str, Callable[[Read, Any], Any]] = {
    "SchemaOrArray": schema_or_array,
    "SchemaOrBool": schema_or_bool,
    "SchemaOrStrings": schema_or_strings,
}
