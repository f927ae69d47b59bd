"""Schemas of custom resources in OpenAPI documents: their definition's own schema, with the parts every object has."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.schema import type_named
from podfit.api.schema.publishing.schemas.definitions import Definitions
from podfit.api.schema.publishing.schemas.descriptions import describe
from podfit.api.schema.publishing.schemas.older import older
from podfit.api.schema.types import Struct


def custom_definition(struct: Struct, kind: Kind, made: Definitions) -> Object:
    schema: Object = _described(struct.cache["custom"].schema, kind.kind)
    kinds = [{"group": kind.group, "kind": kind.kind, "version": kind.version}]
    if not made.v3:
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            # If only some properties were listed, kubectl would reject the others.
            return {"type": "object", "x-kubernetes-group-version-kind": kinds}
        schema = older(schema)
    metadata = _metadata(made)
    schema = _completed(schema, metadata, made.v3)
    schema["properties"] = {**(schema.get("properties") or {}), **_object_fields(metadata, described=True)}
    schema["x-kubernetes-group-version-kind"] = kinds
    return schema


def _metadata(made: Definitions) -> Object:
    meta = made.reference(made.add(type_named("ObjectMeta"), None))
    return {"allOf": [meta]} if made.v3 else meta


def _object_fields(metadata: Object, described: bool) -> Object:
    fields: Object = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}
    if not described:
        return fields
    return {name: {**schema, "description": describe("TypeMeta", name)} for name, schema in fields.items()}


def _completed(schema: Any, metadata: Object, v3: bool) -> Any:
    """The schema with what the marks for amounts that are numbers or strings, and for embedded objects, stand for."""
    if not isinstance(schema, dict):
        return schema
    out: Object = dict(schema)
    if v3 and out.get("x-kubernetes-int-or-string") and not out.get("anyOf"):
        out["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _completed(out[key], metadata, v3)
    if out.get("properties"):
        out["properties"] = {name: _completed(inner, metadata, v3) for name, inner in out["properties"].items()}
    # In version 2 kubectl would reject the fields that are not listed.
    if out.get("x-kubernetes-embedded-resource") and (v3 or not out.get("x-kubernetes-preserve-unknown-fields")):
        out["properties"] = {**(out.get("properties") or {}), **_object_fields(metadata, described=False)}
        out["required"] = list(dict.fromkeys((*(out.get("required") or ()), "kind", "apiVersion")))
    return out


def _described(schema: Any, path: str, silent: bool = False) -> Any:
    """The schema with descriptions added where it has none and one is known."""
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    type_name, _, field = path.partition(".")
    words = "" if silent or "description" in schema else describe(type_name, field)
    if words:
        out["description"] = words
    for word in ("items", "additionalProperties"):
        if word in out:
            out[word] = _described(out[word], path, silent=True)
    if out.get("properties"):
        out["properties"] = {name: _described(item, f"{path}.{name}") for name, item in out["properties"].items()}
    return out
