"""Builds OpenAPI documents, from which `kubectl explain`, `apply` and `--validate` read the kinds of a server, and code
generators their clients.

`index`, `at` and `swagger` build them from the tables that the server decodes with, and from the schemas of custom
resources.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from podfit import KUBERNETES
from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, Subresource
from podfit.api.schema import struct_of, type_of
from podfit.api.schema.publishing import general
from podfit.api.schema.publishing.paths import paths_of
from podfit.api.schema.publishing.schemas.custom import custom_definition
from podfit.api.schema.publishing.schemas.definitions import Definitions, name_of
from podfit.api.schema.types import Struct

_INFO = {"title": "Kubernetes", "version": KUBERNETES[1:].rpartition(".")[0]}
_SECURITY = {
    "BearerToken": {
        "description": "Bearer Token authentication",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    }
}


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
    found = set(general.DOCUMENTS)
    for kind in rows:
        found.add(kind.base_path[1:])
        if kind.group and not kind.custom:
            found.add(f"apis/{kind.group}")
    return sorted(found)


def at(kinds: Iterable[Kind], where: str) -> Object | None:
    """The document at `/openapi/v3/<where>`; None if there is none."""
    rows = list(kinds)
    if where not in _places(rows):
        return None
    parts = where.split("/")
    if where not in general.DOCUMENTS:
        if parts[0] == "api":
            return document(rows, "", parts[1])
        if len(parts) == 3:
            return document(rows, parts[1], parts[2])
    path, schemas = general.document(where)
    return _document(path, schemas)


def _document(paths: Object, schemas: Object) -> Object:
    """A document of version 3, with those of the schemas that its paths refer to."""
    used: set[str] = set()
    _add_references(paths, schemas, used)
    kept = {name: schema for name, schema in sorted(schemas.items()) if name in used}
    components = {**({"schemas": kept} if kept else {}), "securitySchemes": _SECURITY}
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": components}


def _add_references(part: Any, schemas: Object, used: set[str]) -> None:
    if isinstance(part, dict):
        target = part.get("$ref")
        name = target.rpartition("/")[2] if isinstance(target, str) else ""
        if name in schemas and name not in used:
            used.add(name)
            _add_references(schemas[name], schemas, used)
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ():
        _add_references(inner, schemas, used)


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
    listed, documents = general.document(rows[0].base_path[1:])
    schemas = _schemas(rows, Definitions(v3=True)) | general.watch_definitions(rows, True) | documents
    if all(kind.custom for kind in rows):
        # The discovery of custom kinds is not listed.
        listed = {}
    return _document(listed | _paths(rows, True), schemas)


def swagger(kinds: Iterable[Kind]) -> Object:
    """The document at `/openapi/v2`, as JSON: everything in one document."""
    rows = tuple(kinds)
    schemas = _schemas(rows, Definitions(v3=False)) | general.definitions(rows, False)
    paths = _paths(rows, False) | general.discovery_paths(rows)
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": dict(sorted(paths.items())),
        "definitions": schemas,
        "securityDefinitions": _SECURITY,
        "security": [{name: [] for name in _SECURITY}],
    }


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
    found: Object = {}
    for kind in rows:
        found |= paths_of(kind, v3)
    return dict(sorted(found.items()))
