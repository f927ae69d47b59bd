"""Fields of a CustomResourceDefinition's schema that hold a schema or something else, read as Go reads them.

What is neither is refused only where Go refuses it: `items: "string"` is read as null. Called through
`scalars.READERS`, for the nested schemas are read like everything else.
"""

from __future__ import annotations

from typing import Any

from podfit.api.schema import type_named
from podfit.api.schema.decoding.scalars import Unreadable, json_word
from podfit.api.schema.decoding.walk import Walker


def schema_or_array(value: Any) -> Any:
    if isinstance(value, dict):
        return _schema(value)
    return [_schema(item) for item in value] or None if isinstance(value, list) else None


def schema_or_bool(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return _schema(value)
    raise Unreadable("boolean or JSON schema expected")


def schema_or_strings(value: Any) -> Any:
    if isinstance(value, dict):
        return _schema(value)
    if not isinstance(value, list):
        return None
    for item in value:
        if not isinstance(item, str | None):
            raise Unreadable(f"json: cannot unmarshal {json_word(item)} into Go value of type string")
    return [item or "" for item in value] or None


def _schema(value: Any) -> Any:
    """Unknown fields are dropped without a word; the path of errors begins here."""
    walker = Walker()
    schema = walker.read(value, type_named("JSONSchemaProps", "apiextensions.k8s.io"))
    if walker.wrong is not None:
        raise Unreadable(walker.wrong)
    return schema
