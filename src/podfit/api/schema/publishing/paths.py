"""The paths of kinds in OpenAPI documents: collections, objects, subresources, and the older watch paths."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, Subresource
from podfit.api.schema import type_of
from podfit.api.schema.publishing.operations import (
    ANY,
    ENCODINGS,
    JSON,
    STREAMS,
    STRING,
    YAML,
    Action,
    operation,
    parameter,
    patches,
    path_item,
    reference,
)
from podfit.api.schema.publishing.schemas.definitions import DELETE_OPTIONS, PATCH, STATUS, WATCH_EVENT, name_of

_METHODS = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_PROXY_METHODS = ("delete", "get", "head", "options", "patch", "post", "put")
_RETURN_DELETED = frozenset(
    (
        *("PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ResourceQuota", "Service"),
        *("ServiceAccount", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "CSIDriver"),
        *("CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"),
    )
)
"""Kinds whose deletion is answered with the object instead of a Status."""


def paths_of(kind: Kind, v3: bool) -> Object:
    if type_of(kind) is None:
        return {}
    found: Object = {} if kind.custom else _watch_paths(kind, v3)
    collection = kind.path("{namespace}")
    inside = ("namespace",) if kind.namespaced else ()
    many = (("list", "get", "list"), ("create", "post", "post"), ("deletecollection", "delete", "deletecollection"))
    operations = {method: _operation(kind, name, v3) for verb, method, name in many if verb in kind.verbs}
    found[collection] = path_item(operations, inside, v3)
    if kind.namespaced and "list" in kind.verbs:
        everywhere = {"get": _operation(kind, "list", v3, f"{kind.kind}ForAllNamespaces")}
        found[kind.path()] = path_item(everywhere, (), v3)
    if "get" not in kind.verbs:
        return found
    names = (*inside, "name")
    one = {method: _operation(kind, method, v3) for verb, method in _METHODS.items() if verb in kind.verbs}
    one.pop("post", None)
    found[f"{collection}/{{name}}"] = path_item(one, names, v3)
    for sub in kind.subresources:
        found |= _subresource(kind, sub, f"{collection}/{{name}}/{sub.name}", names, v3)
    return found


def _ending(kind: Kind, sub: str = "") -> str:
    return ("Namespaced" if kind.namespaced else "") + kind.kind + sub.capitalize()


def _operation(kind: Kind, name: str, v3: bool, rest: str = "") -> Object:
    gvk = (kind.group, kind.version, kind.kind)
    return operation(kind, _action(kind, name, name_of(kind), v3), rest or _ending(kind), gvk, v3)


def _action(kind: Kind, name: str, body: str, v3: bool) -> Action:
    encodings = (JSON, YAML) if kind.custom else ENCODINGS
    consumes = encodings if kind.custom else (ANY,)
    status = reference(STATUS, v3)
    if name == "list":
        produces = encodings if kind.custom else (*encodings, *STREAMS)
        return Action(name, reference(f"{body}List", v3), produces=produces, consumes=consumes)
    if name == "deletecollection":
        takes = None if kind.custom else reference(DELETE_OPTIONS, v3)
        return Action(name, status, takes, produces=encodings, consumes=consumes, required=False)
    if name == "delete":
        returns = reference(body, v3) if kind.kind in _RETURN_DELETED and not kind.custom else status
        return Action(name, returns, reference(DELETE_OPTIONS, v3), "", encodings, consumes, required=False)
    if name == "patch":
        return Action(name, reference(body, v3), reference(PATCH, v3), "", encodings, patches(kind))
    takes = reference(body, v3) if name in ("post", "put") else None
    return Action(name, reference(body, v3), takes, "", encodings, consumes)


def _subresource(kind: Kind, sub: Subresource, path: str, names: tuple[str, ...], v3: bool) -> Object:
    group = sub.group if sub.group is not None else kind.group
    gvk = (group, sub.version or kind.version, sub.kind)
    if sub.kind.endswith("Options"):
        return _connections(kind, sub, path, names, v3)
    if sub.name == "log":
        produces = ("text/plain", *ENCODINGS)
        reading = operation(kind, Action("get", STRING, None, "log", produces), _ending(kind, "log"), gvk, v3)
        return {path: path_item({"get": reading}, names, v3)}
    body = name_of(Kind(*gvk, kind.plural, kind.namespaced, custom=kind.custom and not sub.group))
    if kind.custom:
        gvk = (kind.group, kind.version, kind.kind)
    found = {}
    for verb in sub.verbs:
        action = _action(kind, _METHODS[verb], body, v3)
        found[_METHODS[verb]] = operation(kind, action, _ending(kind, sub.name), gvk, v3)
    return {path: path_item(found, names, v3)}


def _connections(kind: Kind, sub: Subresource, path: str, names: tuple[str, ...], v3: bool) -> Object:
    """The paths whose requests are passed on to a node, pod or service."""
    gvk = (kind.group, kind.version, sub.kind)
    action = Action("connect", STRING, None, sub.kind, (ANY,))
    is_proxy = sub.name == "proxy"
    found: Object = {}
    for below in ("", "WithPath") if is_proxy else ("",):
        operations = {}
        for method in _PROXY_METHODS if is_proxy else ("get", "post"):
            made = operation(kind, action, "", gvk, v3)
            made["operationId"] += method.capitalize() + _ending(kind, sub.name) + below
            operations[method] = made
        item = path_item(operations, names, v3, pretty=False)
        if below:
            item["parameters"].insert(-1, parameter("path", v3, "path"))
        found[f"{path}/{{path}}" if below else path] = item
    return found


def _watch_paths(kind: Kind, v3: bool) -> Object:
    if "watch" not in kind.verbs:
        return {}
    base, ending = f"{kind.base_path}/watch", _ending(kind)
    if not kind.namespaced:
        return {
            f"{base}/{kind.plural}": _watch(kind, "watchlist", (), f"{kind.kind}List", v3),
            f"{base}/{kind.plural}/{{name}}": _watch(kind, "watch", ("name",), kind.kind, v3),
        }
    inside = f"{base}/namespaces/{{namespace}}/{kind.plural}"
    return {
        f"{base}/{kind.plural}": _watch(kind, "watchlist", (), f"{kind.kind}ListForAllNamespaces", v3),
        inside: _watch(kind, "watchlist", ("namespace",), f"{ending}List", v3),
        f"{inside}/{{name}}": _watch(kind, "watch", ("namespace", "name"), ending, v3),
    }


def _watch(kind: Kind, name: str, names: tuple[str, ...], rest: str, v3: bool) -> Object:
    action = Action(name, reference(WATCH_EVENT, v3), produces=(*ENCODINGS, *STREAMS))
    made = operation(kind, action, rest, (kind.group, kind.version, kind.kind), v3)
    return path_item({"get": made}, names, v3)
