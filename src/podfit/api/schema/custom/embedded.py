"""Objects inside custom resources (`x-kubernetes-embedded-resource`): reads and validates their type and metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.decoding.notes import Notes
from podfit.api.schema.decoding.reader import reader
from podfit.api.schema.decoding.scalars import Unreadable
from podfit.api.status import FieldError, invalid, required
from podfit.api.text import names

Schema = dict[str, Any]
MetadataCheck = Callable[[Object], list[FieldError]]
EMBEDDED = "x-kubernetes-embedded-resource"
_TYPE = ("apiVersion", "kind")
_MIXED_CASE = "may have mixed case, but should otherwise match: "


def read_metadata(value: Any, path: str, unknown: list[str]) -> Any:
    """Metadata without unknown fields, whose paths are added to `unknown`. Raises `Unreadable`."""
    notes = Notes()
    obj = reader(_metadata_type())(value, None, notes)
    if notes.wrong is not None:
        raise Unreadable(notes.wrong)
    unknown += [f"{path}.{note.partition(chr(34))[2][:-1]}" for note in notes.strict]
    return obj


@lru_cache(maxsize=1)
def _metadata_type() -> Any:
    return type_named("ObjectMeta")


def has_embedded(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    below = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values()]
    return bool(schema.get(EMBEDDED)) or any(map(has_embedded, below))


def embedded(value: Any, schema: Schema, path: str = "") -> Iterator[tuple[str, Object]]:
    """The objects inside a value, with their paths."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from embedded(item, schema.get("items") or {}, f"{path}[{at}]")
    if not isinstance(value, dict):
        return
    if schema.get(EMBEDDED):
        yield path, value
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            yield from embedded(item, properties[name], f"{path}.{name}" if path else name)
        elif isinstance(more, dict):
            yield from embedded(item, more, f"{path}[{name}]")


def read_embedded(value: Any, schema: Schema) -> list[str]:
    """Reads the metadata of the objects inside a value, in place. Returns the paths of the unknown fields that this
    removed. Raises `Unreadable`."""
    unknown: list[str] = []
    for path, obj in list(embedded(value, schema)):
        for name in _TYPE:
            if name in obj and not isinstance(obj[name], str):
                raise Unreadable(str(invalid(f"{path}.{name}", obj[name], "must be a string")))
        if "metadata" in obj:
            try:
                obj["metadata"] = read_metadata(obj["metadata"], f"{path}.metadata", unknown) or {}
            except Unreadable as error:
                raise Unreadable(str(invalid(f"{path}.metadata", obj["metadata"], str(error)))) from None
            if obj["metadata"].get("creationTimestamp") is None:
                obj["metadata"].pop("creationTimestamp", None)
    return sorted(unknown)


def embedded_errors(value: Any, schema: Schema, check: MetadataCheck) -> list[FieldError]:
    errors: list[FieldError] = []
    for path, obj in embedded(value, schema):
        errors += [required(f"{path}.{name}") for name in _TYPE if name not in obj]
        for name in _TYPE:
            if name in obj:
                errors += [invalid(f"{path}.{name}", obj[name], text) for text in _type_errors(name, obj[name])]
        if "metadata" in obj:
            found = check({"name": "fakename", **(obj["metadata"] or {})})
            errors += [replace(error, path=f"{path}.{error.path}") for error in found]
    return errors


def _type_errors(name: str, text: str) -> list[str]:
    if not text:
        return ["must not be empty"]
    if name == "apiVersion":
        return [f"unexpected GroupVersion string: {text}"] if text.count("/") > 1 else []
    complaints = names.dns_1035(text.lower())
    return [_MIXED_CASE + ",".join(complaints)] if complaints else []
