"""Patches: JSON patch, JSON merge patch, strategic merge patch and server-side apply (`patches.apply`).

For the first three, `patch_object` does what the API server does between reading the body and admission: it applies the
patch, converts the result to its type, and reports errors.
"""

from __future__ import annotations

import json
from typing import Any

from podfit.api.objects import Object
from podfit.api.patches import json_patch, merge_patch, strategic
from podfit.api.registry.kinds import Kind
from podfit.api.schema.decoding.bodies import patched_type_refused
from podfit.api.schema.decoding.decode import Decoded, DecodeError, convert
from podfit.api.schema.decoding.notes import JSON, UNSTRUCTURED
from podfit.api.schema.types import Struct
from podfit.api.status import ApiError, go_quote
from podfit.api.text.goprint import go_print

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def patch_object(
    live: Object,
    raw: bytes | Object,
    content_type: str,
    struct: Struct,
    *,
    field_validation: str = "Warn",
    kind: Kind | None = None,
) -> Decoded:
    """`live` with the patch applied and converted to its type, and warnings. `live` is not modified, but may share
    parts with the result.

    A strategic patch from this process need not be bytes: `raw` may be its JSON. Nothing mutable of it is retained.
    With `kind`, JSON and merge patches that change the kind are rejected; strategic ones cannot change it.
    """
    if content_type == STRATEGIC:
        patch = strategic.read_patch(raw)
        problems = [] if field_validation == "Ignore" else strategic.strict_problems(raw, patch)
        value = strategic.merged(live, patch, struct)
        return _typed(live, value, struct, field_validation, UNSTRUCTURED, problems, patch)
    assert isinstance(raw, bytes)
    dialect: Any = json_patch if content_type == JSON_PATCH else merge_patch
    loosely = content_type == JSON_PATCH and field_validation == "Ignore"
    value = json_patch.apply_loosely(live, raw) if loosely else dialect.apply(live, raw)
    if kind is not None and isinstance(value, dict) and (refusal := patched_type_refused(value, kind)):
        raise _invalid_patch(live, value, None, refusal)
    problems = [] if field_validation == "Ignore" else dialect.strict_problems(raw)
    return _typed(live, value, struct, field_validation, JSON, problems, None)


def _typed(
    live: Object,
    value: Any,
    struct: Struct,
    mode: str,
    dialect: str,
    problems: list[str],
    patch: Object | None,
) -> Decoded:
    words = "Ignore" if mode == "Ignore" else "Warn"
    try:
        made = convert(value, struct, field_validation=words, dialect=dialect, base=live)
    except DecodeError as error:
        raise _invalid_patch(live, value, patch, str(error)) from None
    made.warnings = problems + made.warnings
    if made.warnings and mode == "Strict":
        raise _invalid_patch(live, value, patch, "strict decoding error: " + ", ".join(made.warnings))
    return made


def _invalid_patch(live: Object, value: Any, patch: Object | None, why: str) -> ApiError:
    """A 422 about the field `patch`, of an object without a name."""
    shown = (
        go_print(patch)
        if patch is not None
        else json.dumps(_sorted_where_changed(value, live), separators=(",", ":"), ensure_ascii=False)
    )
    body = f"Invalid value: {go_quote(shown)}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": body, "field": "patch"}
    return ApiError(422, "Invalid", f' "" is invalid: patch: {body}', {"causes": [cause]})


def _sorted_where_changed(value: Any, live: Any) -> Any:
    """The document with sorted fields in objects that the patch touched, as in Kubernetes; others are unchanged."""
    if value is live or not isinstance(value, dict):
        return value
    old = live if isinstance(live, dict) else {}
    return {
        name: item if item == old.get(name) else _sorted_where_changed(item, old.get(name))
        for name, item in sorted(value.items())
    }
