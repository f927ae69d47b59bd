"""Typed decoding: bytes or parsed JSON in, the object as Go would decode and print it again out.

`decode` reads a request body (400 with Kubernetes' message if it cannot), `take` one that never was bytes, `convert`
the result of a patch (`DecodeError`, for the caller to wrap). Unknown and duplicate fields are rejected, reported or
ignored as `fieldValidation` requests, and never kept. Nothing here defaults or validates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.schema import struct_of, type_of
from podfit.api.schema.decoding.bodies import TypeMeta, body_error, checked_type, type_meta
from podfit.api.schema.decoding.notes import JSON, Notes, plain
from podfit.api.schema.decoding.reader import OTHERS, HasProblems, reader
from podfit.api.schema.decoding.scalars import Unreadable
from podfit.api.schema.decoding.yaml_nodes import YamlError
from podfit.api.schema.decoding.yamls import parse_yaml
from podfit.api.schema.types import Struct
from podfit.api.status import ApiError, bad_request
from podfit.api.text.gojson import GoSyntaxError, may_hold_duplicates, parse, parse_exact


class DecodeError(ValueError):
    """An object that does not match its type; the message is Go's."""


@dataclass(slots=True)
class Decoded:
    obj: Object
    warnings: list[str] = field(default_factory=list)
    """Texts of `Warning` headers, without the code in front."""


def decode(
    raw: bytes,
    kind: Kind | Struct,
    *,
    field_validation: str = "Warn",
    content_type: str = "application/json",
    struct: Struct | None = None,
) -> Decoded:
    """Decodes a request body as an object of `kind`; missing apiVersion and kind are set for built-in kinds.

    `struct` is the type of a kind that is sent in a form other than the native one.
    """
    yaml = "yaml" in content_type
    duplicates: list[str] = []
    try:
        if yaml:
            value, duplicates = parse_yaml(raw)
            value = in_order(value)
        else:
            value = parse(raw, typed=not (isinstance(kind, Kind) and kind.custom))
    except (GoSyntaxError, YamlError) as error:
        word = str(error) if yaml else f"couldn't get version/kind; json parse error: {error}"
        raise body_error(kind, word, raw) from None
    if isinstance(kind, Kind):
        meta, struct = checked_type(value, kind, raw), struct or type_of(kind)
    else:
        meta, struct = type_meta(value, kind, raw), kind
    try:
        if struct is None:
            made = Decoded(value)
        else:
            made = _read(value, struct, field_validation, None if yaml else raw, duplicates)
    except DecodeError as error:
        raise _cannot(meta, kind, str(error)) from None
    if isinstance(kind, Kind):
        made.obj["kind"], made.obj["apiVersion"] = kind.kind, kind.api_version
    return made


def take(value: Object, kind: Kind) -> Object | None:
    """Decodes an object of this process as `decode` decodes its JSON, and shares nothing mutable with it.

    None if there are errors or warnings, or it is more than plain JSON: then it has to be encoded.
    """
    struct = type_of(kind)
    if struct is None or "custom" in struct.cache or value.__class__ is not dict:
        return None
    if (value.get("kind") or kind.kind) != kind.kind or (
        value.get("apiVersion") or kind.api_version
    ) != kind.api_version:
        return None
    try:
        obj: Object = reader(struct)(value, OTHERS, None)
    except (HasProblems, RecursionError):
        return None
    obj["kind"], obj["apiVersion"] = kind.kind, kind.api_version
    return obj


def in_order(value: Any) -> Any:
    """A value with sorted keys, like the JSON to which Go converts YAML: errors are found in that order."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def _cannot(meta: TypeMeta, kind: Kind | Struct, why: str) -> ApiError:
    if not isinstance(kind, Kind):
        return bad_request(why)
    said = f'{meta.kind or kind.kind} in version "{meta.version or kind.version}"'
    return bad_request(f"{said} cannot be handled as a {kind.kind}: {why}")


def convert(
    value: Object, struct: Struct, *, field_validation: str = "Warn", dialect: str = JSON, base: Object | None = None
) -> Decoded:
    """Decodes an already parsed object, e.g. after a patch. `dialect` selects the wording of errors: JSON for JSON and
    merge patches, UNSTRUCTURED for strategic merge patches and server-side apply. `base` is the decoded object before
    the patch: unchanged parts of it are reused."""
    return _read(value, struct, field_validation, None, [], dialect, base, by_name=True)


def _read(
    value: Any,
    struct: Struct,
    mode: str,
    raw: bytes | None,
    duplicates: list[str],
    dialect: str = JSON,
    base: Object | None = None,
    *,
    by_name: bool = False,
) -> Decoded:
    """Decodes a parsed object. `by_name`: Go has encoded it again before decoding, so its keys and errors are
    sorted."""
    custom = struct.cache.get("custom")
    if custom is not None:
        return _custom(value, custom, mode, raw, duplicates)
    if not duplicates and (mode == "Ignore" or raw is None or not may_hold_duplicates(raw, value)):
        try:
            return Decoded(reader(struct)(value, base, None))
        except HasProblems:
            pass
    notes = Notes(dialect)
    try:
        obj = reader(struct)(parse_exact(raw) if raw is not None else value, None, notes)
    except Unreadable as error:
        raise DecodeError(str(error)) from None
    if notes.wrong is not None:
        raise DecodeError(notes.wrong)
    if not isinstance(obj, dict):
        obj = {}
    strict = sorted(notes.strict) if by_name else notes.strict
    return Decoded(obj, _strict(duplicates + strict, mode))


def _custom(value: Any, custom: Any, mode: str, raw: bytes | None, duplicates: list[str]) -> Decoded:
    """Custom resources keep the JSON unchanged, minus the fields that their schema does not define."""
    strict = list(duplicates)
    if mode != "Ignore" and raw is not None and may_hold_duplicates(raw, value):
        strict += duplicate_fields(parse_exact(raw))
    try:
        obj, unknown = custom.prune(value)
    except Unreadable as error:
        raise DecodeError(str(error)) from None
    return Decoded(obj, _strict(strict + [f'unknown field "{path}"' for path in unknown], mode))


def duplicate_fields(value: Any) -> list[str]:
    """Warnings about the duplicate keys of an exactly parsed object, at any depth."""
    found: list[str] = []
    _find_duplicates(value, "", found)
    return found


def _find_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, dict):
        found += [f'duplicate field "{_join(path, key)}"' for key in getattr(value, "twice", ())]
        for key, item in value.items():
            _find_duplicates(item, _join(path, key), found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_duplicates(item, f"{path}[{index}]", found)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _strict(complaints: list[str], mode: str) -> list[str]:
    if not complaints or mode == "Ignore":
        return []
    if mode == "Strict":
        raise DecodeError("strict decoding error: " + ", ".join(complaints))
    return complaints


__all__ = ["DecodeError", "Decoded", "convert", "decode", "plain", "struct_of", "take"]
