"""Reads a URL path: which resource, in which namespace, under which name, and what is done to it.

Pure; knows the shapes of paths, not which kinds exist. `server` looks the kind up and decides about 404 and 405.
"""

from __future__ import annotations

from typing import NamedTuple

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))


class Route(NamedTuple):
    """A path below /api/<version> or /apis/<group>/<version>; `resource` is empty for the discovery documents."""

    verb: str
    group: str
    version: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """What follows a proxy subresource, with its leading slash and its trailing one, if there is one."""


def truthy(values: list[str] | None) -> bool:
    """How Go's query conversion reads a boolean."""
    return bool(values) and values[0].lower() not in ("false", "0")  # type: ignore[index]


def parse(method: str, path: str, query: dict[str, list[str]]) -> Route | None:
    """The route of an API path; None for every other path (health, discovery roots, metrics, nonsense)."""
    _, root, *parts = path.split("/")
    if root == "api" and parts:
        group, version, *parts = "", *parts
    elif root == "apis" and len(parts) > 1:
        group, version, *parts = parts
    else:
        return None
    ended = "/" if parts and parts[-1] == "" else ""
    if ended:
        parts.pop()
    verb = _VERBS.get(method, "")
    if not parts:
        return Route(verb, group, version) if version else None
    watching = verb == "get" and truthy(query.get("watch"))
    if parts[0] == "watch" and len(parts) > 1:
        parts, watching = parts[1:], verb == "get"
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource, rest = _split(parts)
    if subresource == "proxy":
        rest += ended
    if not name or (watching and not subresource):
        verb = _collection_verb(verb, watching)
    if resource == "namespaces":
        namespace = name
    return Route(verb, group, version, resource, namespace, name, subresource, rest)


def _split(parts: list[str]) -> tuple[str, str, str, str]:
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    if subresource == "proxy":
        return parts[0], name, subresource, "".join(f"/{part}" for part in parts[3:])
    if len(parts) > 3:
        subresource = "/".join(parts[2:])
    return parts[0], name, subresource, ""


def _collection_verb(verb: str, watching: bool) -> str:
    if verb == "get":
        return "watch" if watching else "list"
    return "deletecollection" if verb == "delete" else verb
