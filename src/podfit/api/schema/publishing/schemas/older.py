"""Schemas of custom resources in version 2 of OpenAPI, without what it cannot express or kubectl cannot read."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object

_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")
_PRESERVES = "x-kubernetes-preserve-unknown-fields"


def older(schema: Any) -> Any:
    """The schema for version 2. A value that may be null, and an object that keeps unknown fields, becomes untyped:
    kubectl would reject what is not listed."""
    if not isinstance(schema, dict):
        return schema
    out: Object = {key: value for key, value in schema.items() if key not in (*_JUNCTORS, "default", "nullable")}
    nullable, open_ended = bool(schema.get("nullable")), bool(schema.get(_PRESERVES))
    if nullable or open_ended:
        out.pop("items", None)
        out.pop("properties", None)
    kind = out.get("type")
    if nullable or (open_ended and kind == "object") or (kind == "array" and "items" not in out):
        out.pop("type", None)
    _drop_required(out)
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = older(out[key])
    if "properties" in out:
        out["properties"] = {name: older(inner) for name, inner in out["properties"].items()}
    return out


def _drop_required(schema: Object) -> None:
    """A field that may be null is not required."""
    if not schema.get("required"):
        return
    fields = schema.get("properties") or {}
    left = [name for name in schema["required"] if not (fields.get(name) or {}).get("nullable")]
    values = schema.get("additionalProperties")
    if not left or (isinstance(values, dict) and values.get("nullable")):
        del schema["required"]
    else:
        schema["required"] = left
