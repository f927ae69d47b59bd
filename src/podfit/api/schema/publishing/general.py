"""Parts of OpenAPI documents other than kinds: discovery, the version, the token keys, and the older watch paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from podfit.api.objects import Object
from podfit.api.protobuf.table import message_types
from podfit.api.registry.kinds import Kind
from podfit.api.schema.publishing.operations import ENCODINGS, JSON, STRING, place, reference, responses, tag

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_VERSION = "io.k8s.apimachinery.pkg.version.Info"
_DISCOVERY: dict[str, tuple[str, ...]] = {
    "APIGroup": ("name", "versions"),
    "APIGroupList": ("groups",),
    "APIResource": ("name", "singularName", "namespaced", "kind", "verbs"),
    "APIResourceList": ("groupVersion", "resources"),
    "APIVersions": ("versions", "serverAddressByClientCIDRs"),
    "GroupVersionForDiscovery": ("groupVersion", "version"),
    "ServerAddressByClientCIDR": ("clientCIDR", "serverAddress"),
}
"""The types of discovery documents, and the fields that are always there."""
_WHOLE = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions")
_VERSION_REQUIRED = (
    *("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler"),
    "platform",
)
_WORDS = (*_VERSION_REQUIRED, "emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor")
_TYPES: dict[str, tuple[Object, Any]] = {
    "string": ({"type": "string"}, ""),
    "bool": ({"type": "boolean"}, False),
    "int": ({"type": "integer"}, 0),
}
"""The schema and the zero value of plain types."""


def definitions(kinds: Iterable[Kind], v3: bool) -> Object:
    found: Object = {f"{_META}{name}": _of_table(name, v3) for name in _DISCOVERY}
    found[_VERSION] = _version(v3)
    return found | watch_definitions(kinds, v3)


def _version(v3: bool) -> Object:
    properties = {word: _field("string", v3, word in _VERSION_REQUIRED) for word in _WORDS}
    return {"type": "object", "required": list(_VERSION_REQUIRED), "properties": properties}


def watch_definitions(kinds: Iterable[Kind], v3: bool) -> Object:
    inner: Object = {"type": _field("string", v3, True), "object": reference(_RAW, v3)}
    if v3:
        inner["object"] = {"allOf": [inner["object"]]}
    event: Object = {"type": "object", "required": ["type", "object"], "properties": inner}
    event["x-kubernetes-group-version-kind"] = everywhere(kinds, "WatchEvent")
    return {_RAW: {"type": "object"}, f"{_META}WatchEvent": event}


def everywhere(kinds: Iterable[Kind], name: str) -> list[Object]:
    """The schema of a kind that is part of every group and version."""
    places = sorted({("", "v1"), *((kind.group, kind.version) for kind in kinds if not kind.custom)})
    return [{"group": group, "kind": name, "version": version} for group, version in places]


def _of_table(name: str, v3: bool) -> Object:
    """A schema derived from the fields in the protobuf table."""
    fields, needed = sorted(message_types()[f"meta.{name}"].values()), _DISCOVERY[name]
    properties = {field: _field(kind, v3, field in needed) for field, kind in fields}
    found: Object = {"type": "object", "required": list(needed), "properties": properties}
    if name in _WHOLE:
        properties |= {field: {"type": "string"} for field in ("apiVersion", "kind")}
        found["x-kubernetes-group-version-kind"] = [{"group": "", "kind": name, "version": "v1"}]
    return found


def _field(kind: str, v3: bool, always: bool) -> Object:
    """The schema of a field. In version 3 one that is always there has its zero value as default."""
    if kind == "meta.Verbs":
        return {"type": "array", "items": _field("string", v3, True)}
    if kind.startswith("[]"):
        return {"type": "array", "items": _field(kind[2:], v3, True), "x-kubernetes-list-type": "atomic"}
    if kind in _TYPES:
        schema, zero = _TYPES[kind]
        return {**schema, "default": zero} if v3 and always else dict(schema)
    found = reference(f"{_META}{kind.removeprefix('meta.')}", v3)
    return {"allOf": [found], "default": {}} if v3 else found


def document(where: str) -> tuple[Object, Object]:
    """The discovery path below `/<where>/` for version 3, and the schemas of all discovery documents."""
    schemas = {f"{_META}{name}": _of_table(name, True) for name in _DISCOVERY}
    return {f"/{where}/": _path(where, True)}, {_VERSION: _version(True), **schemas}


def discovery_paths(kinds: Iterable[Kind]) -> Object:
    """The discovery paths of the single document that contains everything (version 2)."""
    places = set(DOCUMENTS)
    for kind in kinds:
        # Discovery of custom resources is not listed.
        places |= set() if kind.custom else {kind.base_path[1:], *([f"apis/{kind.group}"] if kind.group else [])}
    return {f"/{where}/": _path(where, False) for where in places}


def _path(where: str, v3: bool) -> Object:
    """A discovery path."""
    parts = where.split("/")
    if where in _PLACES:
        return _PLACES[where](v3)
    if where in ("api", "apis"):
        answer = "APIVersions" if where == "api" else "APIGroupList"
        identifier = "getCoreAPIVersions" if where == "api" else "getAPIVersions"
        return _get(identifier, tag("") if where == "api" else where, reference(_META + answer, v3), v3)
    group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2] if len(parts) > 2 else "")
    answer = "APIResourceList" if version else "APIGroup"
    identifier = f"get{place(group, version)}{'APIResources' if version else 'APIGroup'}"
    return _get(identifier, tag(group, version), reference(_META + answer, v3), v3)


def _get(
    identifier: str,
    label: str,
    schema: Object,
    v3: bool,
    media: tuple[str, ...] = ENCODINGS,
    consumes: tuple[str, ...] | None = None,
) -> Object:
    found: Object = {"tags": [label], "operationId": identifier, "responses": responses(schema, media, v3)}
    if not v3:
        takes = media if consumes is None else consumes
        found |= {"produces": list(media), "schemes": ["https"], **({"consumes": list(takes)} if takes else {})}
    return {"get": found}


_PLACES: dict[str, Callable[[bool], Object]] = {
    "version": lambda v3: _get("getCodeVersion", "version", reference(_VERSION, v3), v3, (JSON,)),
    ".well-known/openid-configuration": lambda v3: _get(
        "getServiceAccountIssuerOpenIDConfiguration", "WellKnown", STRING, v3, (JSON,), ()
    ),
    "openid/v1/jwks": lambda v3: _get(
        "getServiceAccountIssuerOpenIDKeyset", "openid", STRING, v3, ("application/jwk-set+json",), ()
    ),
}
DOCUMENTS = ("api", "apis", *_PLACES)
"""The documents of version 3 that every server has."""
