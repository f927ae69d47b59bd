"""Matches a request to a flow schema and to one of the schema's flows. Pure.

Schemas are tried by matching precedence, then by name; the first match wins. The mandatory schema `catch-all` matches
everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podfit.api.objects import Object

_ANY = "*"
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class RequestAttributes:
    """The attributes that schemas match: the user, and the request. Non-resource requests have a `path`."""

    user: str
    groups: tuple[str, ...]
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    uid: str
    precedence: int
    level: str
    by: str
    """The distinguisher of the schema's flows: `ByUser`, `ByNamespace`, or "" for a single flow."""
    rules: tuple[Object, ...]

    def matches(self, attributes: RequestAttributes) -> bool:
        return any(_matches(rule, attributes) for rule in self.rules)

    def flow(self, attributes: RequestAttributes) -> str:
        if self.by == "ByUser":
            return attributes.user
        return attributes.namespace if self.by == "ByNamespace" else ""


def schemas(objects: Iterable[Object]) -> list[Schema]:
    """Flow schemas in the order in which they are tried."""
    return sorted(map(_schema, objects), key=lambda schema: (schema.precedence, schema.name))


def first_match(candidates: Sequence[Schema], attributes: RequestAttributes) -> Schema | None:
    return next((schema for schema in candidates if schema.matches(attributes)), None)


def _schema(obj: Object) -> Schema:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    return Schema(
        meta["name"],
        meta.get("uid") or "",
        spec.get("matchingPrecedence") or 0,
        (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
        (spec.get("distinguisherMethod") or {}).get("type") or "",
        tuple(spec.get("rules") or ()),
    )


def _matches(rule: Object, attributes: RequestAttributes) -> bool:
    if not any(_is_subject(subject, attributes) for subject in rule.get("subjects") or ()):
        return False
    if attributes.resource:
        return any(_allows_resource(row, attributes) for row in rule.get("resourceRules") or ())
    return any(_allows_path(row, attributes) for row in rule.get("nonResourceRules") or ())


def _is_subject(subject: Object, attributes: RequestAttributes) -> bool:
    kind = subject.get("kind")
    if kind == "User":
        return (subject.get("user") or {}).get("name") in (_ANY, attributes.user)
    if kind == "Group":
        name = (subject.get("group") or {}).get("name")
        return name == _ANY or name in attributes.groups
    account = subject.get("serviceAccount") or {}
    if not attributes.user.startswith(_ACCOUNT):
        return False
    namespace, _, name = attributes.user.removeprefix(_ACCOUNT).partition(":")
    return account.get("namespace") == namespace and account.get("name") in (_ANY, name)


def _allows_resource(row: Object, attributes: RequestAttributes) -> bool:
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    wanted = (("verbs", attributes.verb), ("apiGroups", attributes.group), ("resources", resource))
    if not all(_has(row, field, value) for field, value in wanted):
        return False
    return _has(row, "namespaces", attributes.namespace) if attributes.namespace else bool(row.get("clusterScope"))


def _allows_path(row: Object, attributes: RequestAttributes) -> bool:
    paths = row.get("nonResourceURLs") or ()
    return _has(row, "verbs", attributes.verb) and any(_covers(path, attributes.path) for path in paths)


def _covers(pattern: str, path: str) -> bool:
    """Whether a pattern matches a path. It matches all paths below it, with or without `/*`."""
    return pattern in (_ANY, path) or path.startswith(pattern.removesuffix("*").removesuffix("/") + "/")


def _has(row: Object, field: str, value: str) -> bool:
    values = row.get(field) or ()
    return _ANY in values or value in values
