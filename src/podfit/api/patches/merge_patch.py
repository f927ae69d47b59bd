"""JSON merge patch (RFC 7386): `apply(document, raw)`. The document is not modified."""

from __future__ import annotations

from typing import Any

from podfit.api.schema.decoding.decode import duplicate_fields
from podfit.api.schema.decoding.scalars import json_word
from podfit.api.status import bad_request
from podfit.api.text.gojson import GoSyntaxError, may_hold_duplicates, parse, parse_exact


def apply(document: Any, raw: bytes) -> Any:
    try:
        patch = parse(raw)
    except GoSyntaxError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        word = json_word(patch)
        raise bad_request(f"error decoding patch: json: cannot unmarshal {word} into Go value of type {GO_MAP}")
    return merged(document, patch)


GO_MAP = "map[string]interface {}"


def merged(document: Any, patch: Any) -> Any:
    """MergePatch(target, patch) of RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    out = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value) if isinstance(value, dict) else _without_nulls(value)
    return out


def _without_nulls(value: Any) -> Any:
    """The value that a patch adds where there was none: nulls in objects are dropped, nulls in lists are kept."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def strict_problems(raw: bytes) -> list[str]:
    """Duplicate keys of the patch itself."""
    if not may_hold_duplicates(raw, parse(raw)):
        return []
    return [f"json merge patch {problem}" for problem in duplicate_fields(parse_exact(raw))]
