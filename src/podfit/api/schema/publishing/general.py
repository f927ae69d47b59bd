"""Parts of OpenAPI documents other than kinds: discovery, the version, the token keys, and the older watch paths."""

from __future__ import annotations

from collections.abc import Iterable

from podfit.api.objects import Object
from podfit.api.protobuf.table import message_types
from podfit.api.registry.kinds import Kind

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_VERSION = "io.k8s.apimachinery.pkg.version.Info"
_DISCOVERY: dict[str, tuple[str, ...]] = {
    "APIGroup": ("name", "versions"),
    "APIGroupList": ("groups",),
    "APIResource": ("kind", "name", "namespaced", "singularName", "verbs"),
    "APIResourceList": ("groupVersion", "resources"),
    "APIVersions": ("serverAddressByClientCIDRs", "versions"),
    "GroupVersionForDiscovery": ("groupVersion", "version"),
    "ServerAddressByClientCIDR": ("clientCIDR", "serverAddress"),
}
"""The types of discovery documents, and the fields that are always there."""
_DOCUMENTS = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions")
_WORDS = (
    *("buildDate", "compiler", "emulationMajor", "emulationMinor", "gitCommit", "gitTreeState", "gitVersion"),
    *("goVersion", "major", "minCompatibilityMajor", "minCompatibilityMinor", "minor", "platform"),
)
_VERSION_REQUIRED = tuple(word for word in _WORDS if not word.startswith(("emulation", "minCompatibility")))
_TYPES: dict[str, Object] = {"string": {"type": "string"}, "bool": {"type": "boolean"}, "int": {"type": "integer"}}


def _reference(name: str, v3: bool) -> Object:
    return {"$ref": f"#/components/schemas/{name}" if v3 else f"#/definitions/{name}"}


def definitions(kinds: Iterable[Kind], v3: bool) -> Object:
    found: Object = {f"{_META}{name}": _of_table(name, v3) for name in _DISCOVERY}
    found[_VERSION] = {
        "type": "object",
        "required": list(_VERSION_REQUIRED),
        "properties": {word: {"type": "string"} for word in _WORDS},
    }
    return found | watch_definitions(kinds, v3)


def watch_definitions(kinds: Iterable[Kind], v3: bool) -> Object:
    inner = {"type": {"type": "string"}, "object": _reference(_RAW, v3)}
    event: Object = {"type": "object", "required": ["type", "object"], "properties": inner}
    event["x-kubernetes-group-version-kind"] = everywhere(kinds, "WatchEvent")
    return {_RAW: {"type": "object"}, f"{_META}WatchEvent": event}


def everywhere(kinds: Iterable[Kind], name: str) -> list[Object]:
    """The schema of a kind that is part of every group and version."""
    places = sorted({("", "v1"), *((kind.group, kind.version) for kind in kinds if not kind.custom)})
    return [{"group": group, "kind": name, "version": version} for group, version in places]


def _of_table(name: str, v3: bool) -> Object:
    """A schema derived from the fields in the protobuf table."""
    fields = sorted(message_types()[f"meta.{name}"].values())
    properties = {field: _field(kind, v3) for field, kind in fields}
    found: Object = {"type": "object", "required": list(_DISCOVERY[name]), "properties": properties}
    if name in _DOCUMENTS:
        properties |= {field: {"type": "string"} for field in ("apiVersion", "kind")}
        found["x-kubernetes-group-version-kind"] = [{"group": "", "kind": name, "version": "v1"}]
    return found


def _field(kind: str, v3: bool) -> Object:
    if kind == "meta.Verbs":
        return {"type": "array", "items": _field("string", v3)}
    if kind.startswith("[]"):
        return {"type": "array", "items": _field(kind[2:], v3), "x-kubernetes-list-type": "atomic"}
    return _TYPES.get(kind) or _reference(f"{_META}{kind.removeprefix('meta.')}", v3)


def resource_list(where: str) -> tuple[Object, Object]:
    """The path and schemas of the discovery document of a group and version, for version 3."""
    schema = _reference(f"{_META}APIResourceList", True)
    answer = {"description": "OK", "content": {"application/json": {"schema": schema}}}
    answers = {"200": answer, "401": {"description": "Unauthorized"}}
    schemas = {f"{_META}{name}": _of_table(name, True) for name in ("APIResource", "APIResourceList")}
    return {f"{where}/": {"get": {"responses": answers}}}, schemas


def discovery_paths(kinds: Iterable[Kind]) -> Object:
    """The discovery paths of the single document that contains everything (version 2)."""
    rows = tuple(kinds)
    found = {
        "/api/": _reading("APIVersions"),
        "/apis/": _reading("APIGroupList"),
        "/version/": _get(_reference(_VERSION, False)),
        "/.well-known/openid-configuration/": _get({"type": "string"}),
        "/openid/v1/jwks/": _get({"type": "string"}),
    }
    for kind in rows:
        found[f"{kind.base_path}/"] = _reading("APIResourceList")
        if kind.group:
            found[f"/apis/{kind.group}/"] = _reading("APIGroup")
    return found


def _reading(name: str) -> Object:
    return _get(_reference(f"{_META}{name}", False))


def _get(schema: Object) -> Object:
    answers = {"200": {"description": "OK", "schema": schema}, "401": {"description": "Unauthorized"}}
    return {"get": {"responses": answers}}


def watch_paths(kind: Kind, v3: bool) -> Object:
    """The watch paths from before `?watch=true`: still served, and still listed."""
    if "watch" not in kind.verbs:
        return {}
    base = f"{kind.base_path}/watch"
    found = {f"{base}/{kind.plural}": _watch("watchlist", (), kind, v3)}
    if kind.namespaced:
        inside = f"{base}/namespaces/{{namespace}}/{kind.plural}"
        found[inside] = _watch("watchlist", ("namespace",), kind, v3)
        found[f"{inside}/{{name}}"] = _watch("watch", ("name", "namespace"), kind, v3)
    else:
        found[f"{base}/{kind.plural}/{{name}}"] = _watch("watch", ("name",), kind, v3)
    return found


def _watch(action: str, names: tuple[str, ...], kind: Kind, v3: bool) -> Object:
    schema = _reference(f"{_META}WatchEvent", v3)
    answer: Object = {"description": "OK"}
    answer |= {"content": {"application/json": {"schema": schema}}} if v3 else {"schema": schema}
    operation = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "kind": kind.kind, "version": kind.version},
        "responses": {"200": answer, "401": {"description": "Unauthorized"}},
    }
    text = {"type": "string", "uniqueItems": True}
    shape = {"schema": text} if v3 else text
    return {"get": operation, "parameters": [{"name": name, "in": "path", "required": True, **shape} for name in names]}
