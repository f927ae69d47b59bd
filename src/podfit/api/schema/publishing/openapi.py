"""Builds OpenAPI documents, from which `kubectl explain`, `apply` and `--validate` read the kinds of a server.

`index`, `at` and `swagger` build them from the tables that the server decodes with, and from the schemas of custom
resources. Operations are described as far as clients use it: kinds, media types and query parameters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache

from podfit import KUBERNETES
from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, Subresource
from podfit.api.schema import struct_of, type_of
from podfit.api.schema.publishing import general
from podfit.api.schema.publishing.definitions import (
    DELETE_OPTIONS,
    PATCH,
    STATUS,
    Definitions,
    custom_definition,
    name_of,
)
from podfit.api.schema.types import Struct

_INFO = {"title": "Kubernetes", "version": KUBERNETES}
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_BODIES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = ("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion")
_LIST_MORE = ("resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch")
_QUERY: dict[str, tuple[str, ...]] = {
    "list": _LIST + _LIST_MORE,
    "get": (),
    "post": _WRITE,
    "put": _WRITE,
    "patch": (*_WRITE, "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
    "deletecollection": (*_LIST, "dryRun", "gracePeriodSeconds", "propagationPolicy"),
}
_TYPES = {"limit": "integer", "timeoutSeconds": "integer", "gracePeriodSeconds": "integer"}
_BOOLEANS = ("allowWatchBookmarks", "watch", "force", "sendInitialEvents", "orphanDependents")


def index(kinds: Iterable[Kind]) -> Object:
    """The document at `/openapi/v3`: the URL of each other document, with a hash that changes with its content."""
    rows = list(kinds)
    paths = {}
    for where in _places(rows):
        text = json.dumps(at(rows, where), sort_keys=True).encode()
        mark = hashlib.sha512(text).hexdigest().upper()
        paths[where] = {"serverRelativeURL": f"/openapi/v3/{where}?hash={mark}"}
    return {"paths": paths}


def _places(rows: list[Kind]) -> list[str]:
    found = {"api", "apis", "version"}
    for kind in rows:
        found.add(kind.base_path[1:])
        if kind.group:
            found.add(f"apis/{kind.group}")
    return sorted(found)


def at(kinds: Iterable[Kind], where: str) -> Object | None:
    """The document at `/openapi/v3/<where>`; None if there is none."""
    rows = list(kinds)
    if where not in _places(rows):
        return None
    parts = where.split("/")
    if parts[0] == "api" and len(parts) == 2:
        return document(rows, "", parts[1])
    if len(parts) == 3:
        return document(rows, parts[1], parts[2])
    answer = {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}}
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": {f"/{where}/": {"get": {"responses": answer}}},
        "components": {},
    }


def document(kinds: Iterable[Kind], group: str, version: str) -> Object | None:
    """The document at `/openapi/v3/apis/<group>/<version>`; None for a version without kinds."""
    rows = tuple(kind for kind in kinds if (kind.group, kind.version) == (group, version))
    if not rows:
        return None
    return _build(rows) if any(kind.custom for kind in rows) else _built_in(rows)


@lru_cache(maxsize=64)
def _built_in(rows: tuple[Kind, ...]) -> Object:
    return _build(rows)


def _build(rows: tuple[Kind, ...]) -> Object:
    listed, documents = general.resource_list(rows[0].base_path)
    schemas = _schemas(rows, Definitions(v3=True)) | general.watch_definitions(rows, True) | documents
    return {"openapi": "3.0.0", "info": _INFO, "paths": listed | _paths(rows, True), "components": {"schemas": schemas}}


def swagger(kinds: Iterable[Kind]) -> Object:
    """The document at `/openapi/v2`, as JSON: everything in one document."""
    rows = tuple(kinds)
    schemas = _schemas(rows, Definitions(v3=False)) | general.definitions(rows, False)
    paths = _paths(rows, False) | general.discovery_paths(rows)
    return {"swagger": "2.0", "info": _INFO, "paths": dict(sorted(paths.items())), "definitions": schemas}


def _schemas(rows: tuple[Kind, ...], made: Definitions) -> Object:
    for name in ("DeleteOptions", "Status"):
        struct = struct_of("meta.k8s.io", "v1", name)
        if struct is not None:
            made.schemas[made.add(struct, None)]["x-kubernetes-group-version-kind"] = (
                general.everywhere((), name) if name == "Status" else general.everywhere(rows, name)
            )
    for kind in rows:
        struct = type_of(kind)
        if struct is None:
            continue
        if kind.custom:
            made.schemas[name_of(kind)] = custom_definition(struct, kind, made)
        else:
            made.add(struct, kind)
        for sub in kind.subresources:
            _add_subresource(kind, sub, made)
        if "list" in kind.verbs:
            made.add_list(kind, name_of(kind))
    return dict(sorted(made.schemas.items()))


def _operation_words(kind: Kind, sub: Subresource) -> tuple[str, str, str]:
    """Group, version and kind of the body of a subresource."""
    return sub.group if sub.group is not None else kind.group, sub.version or kind.version, sub.kind


def _add_subresource(kind: Kind, sub: Subresource, made: Definitions) -> None:
    group, version, name = _operation_words(kind, sub)
    struct: Struct | None = struct_of(group, version, name)
    if name != kind.kind and struct is not None:
        made.add(struct, Kind(group, version, name, "", True))


def _paths(rows: tuple[Kind, ...], v3: bool) -> Object:
    paths: Object = {}
    for kind in rows:
        if type_of(kind) is None:
            continue
        if not kind.custom:
            paths |= general.watch_paths(kind, v3)
        collection = kind.path("{namespace}")
        paths[collection] = _collection(kind, v3)
        if kind.namespaced and "list" in kind.verbs:
            paths[kind.path()] = _with_parameters({"get": _operation(kind, "list", v3)}, False, False, v3)
        if "get" not in kind.verbs:
            continue
        operations = {"get": _operation(kind, "get", v3)}
        for verb, method in (("update", "put"), ("patch", "patch"), ("delete", "delete")):
            if verb in kind.verbs:
                operations[method] = _operation(kind, method, v3)
        paths[f"{collection}/{{name}}"] = _with_parameters(operations, kind.namespaced, True, v3)
        for sub in kind.subresources:
            paths[f"{collection}/{{name}}/{sub.name}"] = _subresource(kind, sub, v3)
            if sub.name == "proxy":
                below = _subresource(kind, sub, v3)
                below["parameters"].append(_parameter("path", v3, "path"))
                paths[f"{collection}/{{name}}/proxy/{{path}}"] = below
    return dict(sorted(paths.items()))


def _collection(kind: Kind, v3: bool) -> Object:
    found = {}
    rows = (("list", "get", "list"), ("create", "post", "post"), ("deletecollection", "delete", "deletecollection"))
    for verb, method, action in rows:
        if verb in kind.verbs:
            found[method] = _operation(kind, action, v3)
    return _with_parameters(found, kind.namespaced, False, v3)


def _subresource(kind: Kind, sub: Subresource, v3: bool) -> Object:
    group, version, name = _operation_words(kind, sub)
    spoken = Kind(group, version, name, kind.plural, kind.namespaced, custom=kind.custom)
    methods = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
    found = {methods[verb]: _operation(spoken, methods[verb], v3) for verb in sub.verbs if verb in methods}
    return _with_parameters(found, kind.namespaced, True, v3)


def _with_parameters(operations: Object, namespaced: bool, named: bool, v3: bool) -> Object:
    names = (["name"] if named else []) + (["namespace"] if namespaced else [])
    operations["parameters"] = [_parameter(name, v3, "path") for name in names] + [_parameter("pretty", v3)]
    return operations


def _parameter(name: str, v3: bool, where: str = "query") -> Object:
    kind = "boolean" if name in _BOOLEANS else _TYPES.get(name, "string")
    shape: Object = {"type": kind, "uniqueItems": True}
    found: Object = {"name": name, "in": where}
    if where == "path":
        found["required"] = True
    return {**found, "schema": shape} if v3 else {**found, **shape}


def _operation(kind: Kind, action: str, v3: bool) -> Object:
    known = type_of(kind) is not None
    name = name_of(kind) if known else STATUS
    answer = STATUS if action in ("delete", "deletecollection") else f"{name}List" if action == "list" else name
    group = kind.group.partition(".")[0].capitalize() or "Core"
    found: Object = {
        "operationId": f"{action}{group}{kind.version.upper()}{kind.kind}",
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "kind": kind.kind, "version": kind.version},
        "parameters": [_parameter(query, v3) for query in _QUERY[action]],
        "responses": {"200": _content("OK", answer, v3), "401": {"description": "Unauthorized"}},
    }
    if action == "post":
        found["responses"]["201"] = _content("Created", name, v3)
    if action in ("post", "put", "patch", "delete"):
        body = PATCH if action == "patch" else DELETE_OPTIONS if action == "delete" else name
        media = _BODIES if action != "patch" else _PATCHES if kind.custom else (*_PATCHES, _STRATEGIC)
        _take_body(found, body, media, v3)
    if not v3:
        found["produces"] = list(_BODIES)
    return found


def _take_body(operation: Object, body: str, media: tuple[str, ...], v3: bool) -> None:
    schema = _reference(body, v3)
    if v3:
        operation["requestBody"] = {"content": {kind: {"schema": schema} for kind in media}}
    else:
        operation["consumes"] = list(media)
        operation["parameters"].append({"name": "body", "in": "body", "required": True, "schema": schema})


def _reference(name: str, v3: bool) -> Object:
    return {"$ref": f"#/components/schemas/{name}" if v3 else f"#/definitions/{name}"}


def _content(description: str, name: str, v3: bool) -> Object:
    schema = _reference(name, v3)
    if not v3:
        return {"description": description, "schema": schema}
    return {"description": description, "content": {kind: {"schema": schema} for kind in _BODIES}}
