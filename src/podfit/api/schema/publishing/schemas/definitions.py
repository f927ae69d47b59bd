"""The schemas in OpenAPI documents: types of the tables, and custom resources, as JSON schema."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.schema import TABLES, type_named
from podfit.api.schema.publishing.schemas.descriptions import describe
from podfit.api.schema.publishing.schemas.enums import values_of
from podfit.api.schema.types import ATOMIC, GRANULAR, Field, ListOf, MapOf, Scalar, Struct, Type
from podfit.api.schema.zeros import UNIONS, zero_of

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PACKAGES = {
    "meta": _META,
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
}
STATUS, DELETE_OPTIONS, PATCH = f"{_META}.Status", f"{_META}.DeleteOptions", f"{_META}.Patch"
WATCH_EVENT = f"{_META}.WatchEvent"
_NAMED = {
    "Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "Resource": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "Time": f"{_META}.Time",
    "MicroTime": f"{_META}.MicroTime",
    "Duration": f"{_META}.Duration",
    "SchemaOrArray": f"{_PACKAGES['apiextensions']}.JSONSchemaPropsOrArray",
    "SchemaOrBool": f"{_PACKAGES['apiextensions']}.JSONSchemaPropsOrBool",
    "SchemaOrStrings": f"{_PACKAGES['apiextensions']}.JSONSchemaPropsOrStringArray",
}
_EMBEDDED = {"io.k8s.api.core.v1.PersistentVolumeClaim": Kind("", "v1", "PersistentVolumeClaim", "", True)}
"""Kinds that objects of other groups contain."""
_ANY = {"meta": f"{_META}.FieldsV1", "apiextensions": f"{_PACKAGES['apiextensions']}.JSON"}
"""The type of an arbitrary value in a table; elsewhere it is an extension."""
_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_PLAIN: dict[str, Object] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_SHAPES: dict[str, Object] = {
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "Resource": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Duration": {"type": "string"},
    **{form: {} for form in UNIONS},
}
_OLD_SHAPES: dict[str, Object] = {
    **_SHAPES,
    "Quantity": {"type": "string"},
    "Resource": {"type": "string"},
    "IntOrString": {"type": "string", "format": "int-or-string"},
}


_PUBLISHED_UNIONS = {
    "AppArmorProfile": ("type", ("localhostProfile",)),
    "PodSchedulingGroup": ("", ("podGroupName",)),
    "SeccompProfile": ("type", ("localhostProfile",)),
    "LimitResponse": ("type", ("queuing",)),
    "PriorityLevelConfigurationSpec": ("type", ("exempt", "limited")),
    "Subject": ("kind", ("group", "serviceAccount", "user")),
}
"""Types of which only one field may be set, and the field that selects it."""


def package_of(table: str) -> str:
    """The package under which a table's types are published."""
    if table in _PACKAGES:
        return _PACKAGES[table]
    group, _, version = table.partition("_")
    return f"io.k8s.api.{group}.{version or 'v1'}"


def name_of(kind: Kind) -> str:
    """The schema's name of a kind."""
    if kind.custom:
        return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
    return f"{package_of(TABLES[kind.group, kind.version])}.{kind.kind}"


class Definitions:
    """Collects the schemas of structs and of all they refer to."""

    def __init__(self, v3: bool) -> None:
        self.v3 = v3
        self.schemas: Object = {PATCH: {"type": "object"}}

    def reference(self, name: str) -> Object:
        return {"$ref": f"#/components/schemas/{name}" if self.v3 else f"#/definitions/{name}"}

    def add(self, struct: Struct, kind: Kind | None) -> str:
        name = f"{package_of(struct.table)}.{struct.name}"
        if name not in self.schemas:
            made: Object = {"type": "object"}
            self.schemas[name] = made
            self._fill(made, struct)
            kind = kind or _EMBEDDED.get(name)
        if kind is not None:
            self.schemas[name]["x-kubernetes-group-version-kind"] = [_gvk(kind, kind.kind)]
        return name

    def _fill(self, made: Object, struct: Struct) -> None:
        words = describe(struct.name)
        if words:
            made["description"] = words
        if struct.fields:
            made["properties"] = {row.name: self._field(struct, row) for row in struct}
        required = [row.name for row in struct if row.required]
        if required:
            made["required"] = required
        if struct.atomic:
            made["x-kubernetes-map-type"] = "atomic"
        if struct.name in _PUBLISHED_UNIONS and struct.table in ("core", "flowcontrol"):
            discriminator, fields = _PUBLISHED_UNIONS[struct.name]
            union: Object = {"fields-to-discriminateBy": {field: field[0].upper() + field[1:] for field in fields}}
            made["x-kubernetes-unions"] = [{"discriminator": discriminator, **union} if discriminator else union]

    def _field(self, struct: Struct, row: Field) -> Object:
        made = self.type(row.type, struct.table)
        words = describe(struct.name, row.name)
        if "$ref" in made and self.v3:
            made = {"allOf": [made]}
        if words:
            made["description"] = words
        default = self._default_of(row)
        if default is not None and self.v3:
            made["default"] = default
        if row.granular:
            made["x-kubernetes-map-type"] = GRANULAR
        if row.merge:
            made["x-kubernetes-patch-strategy"] = "merge,retainKeys" if row.retain_keys else "merge"
            if row.merge_key:
                made["x-kubernetes-patch-merge-key"] = row.merge_key
        elif row.retain_keys or row.replace:
            made["x-kubernetes-patch-strategy"] = "retainKeys" if row.retain_keys else "replace"
        return made

    def _default_of(self, row: Field) -> Any:
        if row.default is not None:
            return row.default
        if row.pointer or isinstance(row.type, (ListOf, MapOf)):
            return None
        if isinstance(row.type, Struct):
            return {}
        return None if row.omit_empty else _zero(row.type)

    def type(self, kind: Type, table: str) -> Object:
        if isinstance(kind, Struct):
            return self.reference(self.add(kind, None))
        if isinstance(kind, ListOf):
            made: Object = {"type": "array", "items": self._inner(kind.item, table)}
            made["x-kubernetes-list-type"] = kind.relation
            if kind.keys:
                made["x-kubernetes-list-map-keys"] = list(kind.keys)
            return made
        if isinstance(kind, MapOf):
            value = self._inner(kind.value, table)
            value.pop("x-kubernetes-list-type", None)
            found: Object = {"type": "object", "additionalProperties": value}
            return {**found, "x-kubernetes-map-type": ATOMIC} if kind.relation == ATOMIC else found
        return self._scalar(kind, table)

    def _inner(self, kind: Type, table: str) -> Object:
        """The schema of an element of a list or map. It is never null, so version 3 has a default for it."""
        made = self.type(kind, table)
        default: Any = {} if isinstance(kind, Struct) else _zero(kind) if isinstance(kind, Scalar) else None
        if not self.v3 or default is None:
            return made
        return {"allOf": [made], "default": default} if "$ref" in made else {**made, "default": default}

    def _scalar(self, kind: Scalar, table: str) -> Object:
        if kind.form in _PLAIN:
            values = values_of(kind.go) if kind.form == "string" else []
            return {**_PLAIN[kind.form], "enum": list(values)} if values else dict(_PLAIN[kind.form])
        if kind.form == "Raw":
            name, shape = _ANY.get(table, _EXTENSION), {} if table == "apiextensions" else {"type": "object"}
        else:
            name, shape = _NAMED[kind.form], (_SHAPES if self.v3 else _OLD_SHAPES)[kind.form]
        self.schemas.setdefault(name, shape)
        return self.reference(name)

    def _whole(self, name: str, bare: bool = False) -> Object:
        found = self.reference(name)
        if not self.v3:
            return found
        return {"allOf": [found]} if bare else {"allOf": [found], "default": {}}

    def add_list(self, kind: Kind, name: str) -> None:
        meta = self.add(type_named("ListMeta"), None)
        self.schemas[f"{name}List"] = {
            "description": f"A list of {kind.kind} objects.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": self._whole(meta, kind.custom),
                "items": {"type": "array", "items": self.reference(name) if kind.custom else self._whole(name)},
            },
            "x-kubernetes-group-version-kind": [_gvk(kind, kind.list_kind)],
        }


def _zero(kind: Scalar) -> Any:
    """The published default of a type: only plain values have one."""
    return zero_of(kind) if kind.form in ("string", "bool", "int32", "int64", "float64") else None


def _gvk(kind: Kind, name: str) -> Object:
    return {"group": kind.group, "kind": name, "version": kind.version}
