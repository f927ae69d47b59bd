"""The view of CEL rules on values with a structural schema: their types, maximum sizes, and conversion.

Sizes and their estimates are those of Kubernetes: a list without maxItems has as many items as fit into a request.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from podfit.api.cel.cost.sizes import Path, Range
from podfit.api.cel.library.times import duration_from, timestamp_from
from podfit.api.cel.parsing.lexer import RESERVED
from podfit.api.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from podfit.api.cel.values import NANOS, Failed, MapList, SetList, Timestamp

Schema = dict[str, Any]
Convert = Callable[[Any], Any]
LARGEST_REQUEST = 3 << 20
_KEYWORDS = RESERVED | {"true", "false", "null", "in"}
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_SPECIAL = re.compile(r"__|[./-]")
_ESCAPE = re.compile(r"__(underscores|dot|dash|slash)__")
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def escaped(name: str) -> str | None:
    """The name of a field as an identifier, or nothing if it cannot be one."""
    if not _NAME.fullmatch(name):
        return None
    if name in _KEYWORDS:
        return f"__{name}__"
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], name)


def unescaped(name: str) -> str:
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    return _ESCAPE.sub(lambda found: {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}[found[1]], name)


@dataclass(slots=True)
class Declared:
    """The declaration of a value."""

    type: Type
    most: int = 0
    """The maximum number of elements or characters."""
    least_bytes: int = 2
    """The minimum length of its JSON."""
    key: Declared | None = None
    items: Declared | None = None
    fields: dict[str, Declared] = field(default_factory=dict)
    """By the names expressions use."""
    convert: Convert | None = None
    """Converts a JSON value to a CEL value; None if they are the same."""

    def size_of(self, path: Path) -> Range | None:
        if not path:
            return None
        found: Declared | None = self
        for step in path[1:]:
            if found is None:
                return None
            if step in ("@items", "@values"):
                found = found.items
            elif step == "@keys":
                found = found.key
            else:
                found = found.fields.get(step)
        return None if found is None else Range(0, found.most)

    def value(self, raw: Any) -> Any:
        return raw if self.convert is None or raw is None else self.convert(raw)


_TEXT = LARGEST_REQUEST - 2
_KEY = Declared(STRING)


def declared(schema: Schema, root: bool = False, name: str = "selfType") -> Declared | None:
    """The declaration of a schema's values; None if rules cannot access them."""
    if schema.get("x-kubernetes-int-or-string"):
        longest = schema.get("maxLength")
        return Declared(DYN, _TEXT if longest is None else max(0, longest) * 4, 1)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, name)
    if kind == "object":
        return _object(_with_meta(schema) if root else schema, name)
    if kind == "string":
        return _string(schema)
    if kind == "boolean":
        return Declared(BOOL, least_bytes=4)
    if kind == "number":
        return Declared(DOUBLE, least_bytes=1, convert=_number)
    return Declared(INT, least_bytes=1) if kind == "integer" else None


def _below(schema: Schema, name: str) -> Declared | None:
    return declared(schema, bool(schema.get("x-kubernetes-embedded-resource")), name)


def _with_meta(schema: Schema) -> Schema:
    """The schema of an object with kind, apiVersion and names added, which every object has."""
    text = {"type": "string"}
    meta = {"type": "object", "properties": {"name": text, "generateName": text}}
    properties = {**(schema.get("properties") or {}), "kind": text, "apiVersion": text, "metadata": meta}
    return {**schema, "properties": properties}


def _list(schema: Schema, name: str) -> Declared | None:
    inner = schema.get("items")
    items = _below(inner, f"{name}.@idx") if isinstance(inner, dict) else None
    if items is None:
        return None
    most = schema.get("maxItems")
    count = (LARGEST_REQUEST - 2) // (items.least_bytes + 1) if most is None else max(0, most)
    return Declared(list_of(items.type), count, items=items, convert=_list_converter(schema, items.convert))


def _list_converter(schema: Schema, convert: Convert | None) -> Convert | None:
    kind = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if convert is None and kind not in ("set", "map"):
        return None

    def made(raw: Any) -> Any:
        if not isinstance(raw, list):
            return raw
        items = raw if convert is None else [None if item is None else convert(item) for item in raw]
        if kind == "set":
            return SetList(items)
        return MapList(items, keys) if kind == "map" else items

    return made


def _object(schema: Schema, name: str) -> Declared | None:
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        return _map(schema, more, name)
    required = set(schema.get("required") or ())
    fields: dict[str, Declared] = {}
    converters: dict[str, Convert] = {}
    size = 2
    for key, inner in (schema.get("properties") or {}).items():
        identifier = escaped(key)
        found = _below(inner, f"{name}.{identifier}") if isinstance(inner, dict) else None
        if found is None:
            continue
        if identifier is not None:
            fields[identifier] = found
        if found.convert is not None:
            converters[key] = found.convert
        if key in required and inner.get("default") is None:
            size += len(key.encode()) + found.least_bytes + 4
    kind = Type("object", name=name, fields={key: item.type for key, item in fields.items()})
    return Declared(kind, least_bytes=size, fields=fields, convert=_object_converter(converters))


def _object_converter(converters: dict[str, Convert]) -> Convert | None:
    if not converters:
        return None

    def made(raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        out = dict(raw)
        for key, convert in converters.items():
            if out.get(key) is not None:
                out[key] = convert(out[key])
        return out

    return made


def _map(schema: Schema, more: Schema, name: str) -> Declared | None:
    items = _below(more, f"{name}.@elem")
    if items is None:
        return None
    most = schema.get("maxProperties")
    count = (LARGEST_REQUEST - 2) // (items.least_bytes + 6) if most is None else max(0, most)
    convert = items.convert
    made: Convert | None = None
    if convert is not None:
        made = lambda raw: {key: None if item is None else convert(item) for key, item in raw.items()}  # noqa: E731
    return Declared(map_of(STRING, items.type), count, key=_KEY, items=items, convert=made)


def _string(schema: Schema) -> Declared:
    form, longest = schema.get("format"), schema.get("maxLength")
    if form == "byte":
        return Declared(BYTES, _TEXT if longest is None else max(0, longest), convert=_bytes)
    if form == "duration":
        return Declared(DURATION, 32, 3, convert=_duration)
    if form == "date":
        return Declared(TIMESTAMP, 12, 12, convert=_date)
    if form == "date-time":
        return Declared(TIMESTAMP, 32, 21, convert=_time)
    if longest is not None:
        return Declared(STRING, max(0, longest) * 4)
    if schema.get("enum"):
        return Declared(STRING, max(len(word.encode()) for word in (*schema["enum"], "") if isinstance(word, str)))
    return Declared(STRING, _TEXT)


# --- values: one that cannot be converted is left unchanged, and no function accepts it ------------------------------


def _number(raw: Any) -> Any:
    return float(raw) if type(raw) is int else raw


def _bytes(raw: Any) -> Any:
    try:
        return base64.b64decode(raw, validate=True)
    except (ValueError, TypeError):
        return raw


def _duration(raw: Any) -> Any:
    try:
        return duration_from(raw)
    except (Failed, TypeError):
        return raw


def _time(raw: Any) -> Any:
    try:
        return timestamp_from(raw)
    except (Failed, TypeError):
        return raw


def _date(raw: Any) -> Any:
    try:
        return Timestamp((date.fromisoformat(raw).toordinal() - _EPOCH_DAY) * 86_400 * NANOS)
    except (ValueError, TypeError):
        return raw
