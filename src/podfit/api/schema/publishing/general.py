"""Parts of OpenAPI documents other than kinds: discovery, the version, the token keys, and the older watch paths."""

from __future__ import annotations

from collections.abc import Iterable

from podfit.api.objects import Object
from podfit.api.protobuf.table import message_types
from podfit.api.registry.kinds import Kind

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_VERSION = "io.k8s.apimachinery.pkg.version.Info"
_DISCOVERY = (
    *("APIGroup", "APIGroupList", "APIResource", "APIResourceList", "APIVersions", "GroupVersionForDiscovery"),
    *("ServerAddressByClientCIDR", "ShardInfo"),
)
_WORDS = (
    *("buildDate", "compiler", "emulationMajor", "emulationMinor", "gitCommit", "gitTreeState", "gitVersion"),
    *("goVersion", "major", "minCompatibilityMajor", "minCompatibilityMinor", "minor", "platform"),
)
_TYPES: dict[str, Object] = {"string": {"type": "string"}, "bool": {"type": "boolean"}, "int": {"type": "integer"}}


def _reference(name: str, v3: bool) -> Object:
    return {"$ref": f"#/components/schemas/{name}" if v3 else f"#/definitions/{name}"}


def definitions(v3: bool) -> Object:
    found: Object = {f"{_META}{name}": _of_table(name, v3) for name in _DISCOVERY}
    found[_VERSION] = {"type": "object", "properties": {word: {"type": "string"} for word in _WORDS}}
    return found | watch_definitions(v3)


def watch_definitions(v3: bool) -> Object:
    inner = {"type": {"type": "string"}, "object": _reference(_RAW, v3)}
    event = {"type": "object", "required": ["type", "object"], "properties": inner}
    return {_RAW: {"type": "object"}, f"{_META}WatchEvent": event}


def _of_table(name: str, v3: bool) -> Object:
    """Derived from the fields that protobuf has."""
    fields = sorted(message_types()[f"meta.{name}"].values())
    return {"type": "object", "properties": {field: _field(kind, v3) for field, kind in fields}}


def _field(kind: str, v3: bool) -> Object:
    if kind == "meta.Verbs":
        kind = "[]string"
    if kind.startswith("[]"):
        return {"type": "array", "items": _field(kind[2:], v3)}
    return _TYPES.get(kind) or _reference(f"{_META}{kind.removeprefix('meta.')}", v3)


def discovery_paths(kinds: Iterable[Kind]) -> Object:
    """Those of the single document that contains everything (version 2)."""
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
