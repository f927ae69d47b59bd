"""Custom resources: applies a CustomResourceDefinition's `openAPIV3Schema` to objects.

`custom_struct(kind, schema)` creates the `Struct` that patches, apply and strict decoding use; its `cache["custom"]` is
the `CustomSchema` that prunes, defaults and validates. Not used for built-in kinds.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from podfit.api.cel.cost.budget import NEVER_YIELD, YieldPolicy
from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.schema import type_named
from podfit.api.schema.custom.embedded import (
    EMBEDDED,
    MetadataCheck,
    embedded_errors,
    has_embedded,
    read_embedded,
    read_metadata,
)
from podfit.api.schema.custom.validation import Validator
from podfit.api.schema.types import ATOMIC, GRANULAR, RAW, Field, ListOf, MapOf, Scalar, Struct, Type
from podfit.api.status import FieldError

Schema = dict[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
_META_FIELDS = ("apiVersion", "kind", "metadata")


class CustomSchema:
    """The schema of one version of a custom resource: prunes, defaults and validates objects."""

    def __init__(self, schema: Schema | None, scale: dict[str, Any] | None = None) -> None:
        self.schema: Schema = schema or {"type": "object", PRESERVE: True}
        self._validator = Validator(self.schema, scale)
        self._embeds = has_embedded(self.schema)

    def prune(self, value: Any) -> tuple[Object, list[str]]:
        """The object without fields that the schema does not define, and the paths of those. Raises `Unreadable`."""
        unknown: list[str] = []
        body = {key: item for key, item in value.items() if key != "metadata"} if isinstance(value, dict) else {}
        obj = _pruned(body, self.schema, "", unknown, root=True)
        of_metadata: list[str] = []
        if isinstance(value, dict) and "metadata" in value:
            obj["metadata"] = read_metadata(value["metadata"], "metadata", of_metadata)
        inside = read_embedded(obj, self.schema) if self._embeds else []
        return obj, of_metadata + sorted(unknown) + inside

    def default(self, obj: Object) -> None:
        """Sets defaults, in place; nulls that the schema does not allow are replaced by defaults or removed."""
        _default(obj, self.schema)

    def validate(
        self,
        obj: Object,
        old: Object | None = None,
        subresource: str = "",
        yielding: YieldPolicy = NEVER_YIELD,
        check: MetadataCheck | None = None,
        warnings: list[str] | None = None,
    ) -> list[FieldError]:
        """All validation errors. On updates, errors in unchanged parts are not reported, and rules that these violate
        are added to `warnings`. `check` validates the metadata of objects inside the resource."""
        if subresource == "status":
            return self._validator.validate_status(obj, old, yielding, warnings)
        inside = embedded_errors(obj, self.schema, check) if self._embeds and check is not None else []
        return self._validator.validate(obj, old, yielding, inside, warnings)


def custom_struct(kind: Kind, schema: Schema | None, scale: dict[str, Any] | None = None) -> Struct:
    """The struct of a custom resource, for its `Kind`."""
    custom = CustomSchema(schema, scale)
    made = _type(kind.kind, custom.schema)
    struct = made if isinstance(made, Struct) else Struct(kind.kind, kind.kind, preserve_unknown=True)
    struct.name, struct.atomic = kind.kind, False
    string = Scalar("string", "string")
    for name in ("apiVersion", "kind"):
        struct.fields[name] = Field(name, string)
    struct.fields["metadata"] = Field("metadata", type_named("ObjectMeta"))
    struct.cache["custom"] = custom
    return struct


def _pruned(value: Any, schema: Schema, path: str, unknown: list[str], root: bool = False) -> Any:
    if isinstance(value, list):
        items = schema.get("items")
        if items is None and schema.get(PRESERVE):
            return value
        items = items or {}
        return [_pruned(item, items, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    keep_all = bool(schema.get(PRESERVE))
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    embedded = root or bool(schema.get(EMBEDDED))
    out = {}
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        if key in properties:
            out[key] = _pruned(item, properties[key], where, unknown)
        elif isinstance(more, dict):
            out[key] = _pruned(item, more, where, unknown)
        elif more or keep_all or (embedded and key in _META_FIELDS):
            out[key] = item
        else:
            unknown.append(where)
    return out


def _default(value: Any, schema: Schema) -> None:
    if isinstance(value, list):
        for item in value:
            _default(item, schema.get("items") or {})
        return
    if not isinstance(value, dict):
        return
    for name, below in (schema.get("properties") or {}).items():
        if value.get(name) is None and not (name in value and below.get("nullable")):
            if "default" in below:
                value[name] = deepcopy(below["default"])
            elif name in value:
                del value[name]
                continue
        if name in value:
            _default(value[name], below)
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        for name in value.keys() - (schema.get("properties") or {}).keys():
            _default(value[name], more)


_FORMS = {"string": "string", "boolean": "bool", "number": "float64", "integer": "int64"}


def _type(name: str, schema: Schema) -> Type:
    if schema.get(INT_OR_STRING):
        return Scalar("IntOrString", "intstr.IntOrString")
    kind = schema.get("type")
    if kind in _FORMS:
        return Scalar(_FORMS[kind], kind)
    if kind == "array":
        relation = schema.get("x-kubernetes-list-type") or ATOMIC
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        return ListOf(_type(f"{name}Item", schema.get("items") or {}), "[]interface {}", relation, keys)
    if kind != "object":
        return RAW
    atomic = schema.get("x-kubernetes-map-type") == ATOMIC
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and not schema.get("properties"):
        return MapOf(_type(f"{name}Value", more), "map[string]interface {}", ATOMIC if atomic else GRANULAR)
    return _object_type(name, schema, atomic)


def _object_type(name: str, schema: Schema, atomic: bool) -> Type:
    properties = schema.get("properties") or {}
    keep = bool(schema.get(PRESERVE) or schema.get("additionalProperties"))
    if not properties and keep:
        return MapOf(RAW, "map[string]interface {}", ATOMIC if atomic else GRANULAR)
    struct = Struct(name, name, atomic=atomic, preserve_unknown=keep, doc=schema.get("description", ""))
    required = schema.get("required") or ()
    for key, below in properties.items():
        struct.fields[key] = Field(
            key,
            _type(key[:1].upper() + key[1:], below),
            pointer=True,
            required=key in required,
            default=below.get("default"),
            nullable=bool(below.get("nullable")),
            doc=below.get("description", ""),
        )
    if schema.get(EMBEDDED):
        struct.fields.setdefault("metadata", Field("metadata", type_named("ObjectMeta"), pointer=True))
        for key in ("apiVersion", "kind"):
            struct.fields.setdefault(key, Field(key, Scalar("string", "string"), pointer=True))
    return struct
