"""The string formats that schemas of custom resources may use. Unknown ones are stored and have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TEXTS = frozenset(
    {
        "bsonobjectid",
        "byte",
        "cidr",
        "creditcard",
        "date",
        "datetime",
        "duration",
        "email",
        "hexcolor",
        "hostname",
        "ipv4",
        "ipv6",
        "isbn",
        "isbn10",
        "isbn13",
        "k8slongname",
        "k8sshortname",
        "mac",
        "password",
        "rgbcolor",
        "ssn",
        "uri",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
    }
)
_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}
_LISTS, _MAPS = ("allOf", "anyOf", "oneOf"), ("properties", "patternProperties", "definitions")
_ONES = ("not", "additionalProperties", "additionalItems")


def unknown_formats(schema: Any) -> Iterator[str]:
    """The formats in a schema that are not checked, in the order of its parts."""
    if not isinstance(schema, dict):
        return
    named, kind = schema.get("format") or "", schema.get("type") or ""
    if named and not _known(named, kind):
        yield named
    items = schema.get("items")
    below = [*(items if isinstance(items, list) else [items])]
    below += [part for field in _LISTS for part in schema.get(field) or ()]
    below += [part for field in _MAPS for _, part in sorted((schema.get(field) or {}).items())]
    for part in (*below, *(schema.get(field) for field in _ONES)):
        yield from unknown_formats(part)


def _known(named: str, kind: str) -> bool:
    if kind in ("", "string"):
        return named.replace("-", "") in _TEXTS
    return named in _NUMBERS.get(kind, ())
