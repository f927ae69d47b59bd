"""Parses a URL path: resource, namespace, name, and verb.

Pure; knows the structure of paths, not which kinds exist. `server` looks the kind up and decides about 404 and 405.
"""

from __future__ import annotations

import msgspec

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))


class Route(msgspec.Struct, frozen=True, gc=False):
    """A path below /api/<version> or /apis/<group>/<version>; `resource` is empty for the discovery documents."""

    verb: str
    group: str
    version: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """The path after a proxy subresource, with its leading slash and its trailing one, if there is one."""


def truthy(values: list[str] | None) -> bool:
    """Parses a boolean like Go's query conversion."""
    return bool(values) and values[0].lower() not in ("false", "0")  # type: ignore[index]


def parse(method: str, path: str, query: dict[str, list[str]]) -> Route | None:
    """The route of an API path; None for every other path (health, discovery roots, metrics, empty segments)."""
    parts = path.split("/")
    end = len(parts)
    if end < 2:
        return None  # The target of CONNECT and OPTIONS need not be a path.
    if parts[1] == "api" and end > 2:
        group, version, at = "", parts[2], 3
    elif parts[1] == "apis" and end > 3:
        group, version, at = parts[2], parts[3], 4
    else:
        return None
    ended = end > at and not parts[-1]
    if ended:
        end -= 1
    verb = _VERBS.get(method, "")
    if at == end:
        return None if "" in parts[1:end] else Route(verb, group, version)
    watching = verb == "get" and truthy(query.get("watch"))
    if parts[at] == "watch" and end > at + 1:
        at, watching = at + 1, verb == "get"
    namespace = ""
    if parts[at] == "namespaces" and end > at + 1:
        namespace = parts[at + 1]
        if end > at + 2 and parts[at + 2] not in _NAMESPACE_SUBRESOURCES:
            at += 2
    # Empty segments are allowed only in the path behind a proxy, which belongs to its target.
    if "" in parts[1 : min(end, at + 3)]:
        return None
    resource = parts[at]
    name = parts[at + 1] if end > at + 1 else ""
    subresource = parts[at + 2] if end > at + 2 else ""
    rest = ""
    if subresource == "proxy":
        rest = "".join([f"/{part}" for part in parts[at + 3 : end]]) + ("/" if ended else "")
    elif end > at + 3:
        if "" in parts[at + 3 : end]:
            return None
        subresource = "/".join(parts[at + 2 : end])
    if not name or (watching and not subresource):
        verb = _collection_verb(verb, watching)
    return Route(verb, group, version, resource, namespace, name, subresource, rest)


def _collection_verb(verb: str, watching: bool) -> str:
    if verb == "get":
        return "watch" if watching else "list"
    return "deletecollection" if verb == "delete" else verb
