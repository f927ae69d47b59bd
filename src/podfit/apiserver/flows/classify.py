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
class Asked:
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
    """What distinguishes the schema's flows: `ByUser`, `ByNamespace`, or "" for one flow."""
    rules: tuple[Object, ...]

    def matches(self, asked: Asked) -> bool:
        return any(_matches(rule, asked) for rule in self.rules)

    def flow(self, asked: Asked) -> str:
        if self.by == "ByUser":
            return asked.user
        return asked.namespace if self.by == "ByNamespace" else ""


def schemas(objects: Iterable[Object]) -> list[Schema]:
    """Flow schemas in the order in which they are tried."""
    return sorted(map(_schema, objects), key=lambda schema: (schema.precedence, schema.name))


def first_match(candidates: Sequence[Schema], asked: Asked) -> Schema | None:
    return next((schema for schema in candidates if schema.matches(asked)), None)


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


def _matches(rule: Object, asked: Asked) -> bool:
    if not any(_is_subject(subject, asked) for subject in rule.get("subjects") or ()):
        return False
    if asked.resource:
        return any(_allows_resource(row, asked) for row in rule.get("resourceRules") or ())
    return any(_allows_path(row, asked) for row in rule.get("nonResourceRules") or ())


def _is_subject(subject: Object, asked: Asked) -> bool:
    kind = subject.get("kind")
    if kind == "User":
        return (subject.get("user") or {}).get("name") in (_ANY, asked.user)
    if kind == "Group":
        name = (subject.get("group") or {}).get("name")
        return name == _ANY or name in asked.groups
    account = subject.get("serviceAccount") or {}
    if not asked.user.startswith(_ACCOUNT):
        return False
    namespace, _, name = asked.user.removeprefix(_ACCOUNT).partition(":")
    return account.get("namespace") == namespace and account.get("name") in (_ANY, name)


def _allows_resource(row: Object, asked: Asked) -> bool:
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    wanted = (("verbs", asked.verb), ("apiGroups", asked.group), ("resources", resource))
    if not all(_has(row, field, value) for field, value in wanted):
        return False
    return _has(row, "namespaces", asked.namespace) if asked.namespace else bool(row.get("clusterScope"))


def _allows_path(row: Object, asked: Asked) -> bool:
    paths = row.get("nonResourceURLs") or ()
    return _has(row, "verbs", asked.verb) and any(_covers(path, asked.path) for path in paths)


def _covers(pattern: str, path: str) -> bool:
    """A pattern covers everything below it, with or without `/*`."""
    return pattern in (_ANY, path) or path.startswith(pattern.removesuffix("*").removesuffix("/") + "/")


def _has(row: Object, field: str, value: str) -> bool:
    values = row.get(field) or ()
    return _ANY in values or value in values
