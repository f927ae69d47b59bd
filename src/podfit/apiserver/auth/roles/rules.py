"""A policy rule of RBAC: which actions it allows, and which other rules it covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podfit.api.status import go_quote
from podfit.apiserver.auth.authorize import Action


@dataclass(frozen=True, slots=True)
class Rule:
    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, action: Action) -> bool:
        if action.verb not in self.verbs and "*" not in self.verbs:
            return False
        if action.path:
            return any(_url_covers(url, action.path) for url in self.urls)
        if action.group not in self.groups and "*" not in self.groups:
            return False
        if self.names and action.name not in self.names:
            return False
        resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
        return any(_resource_covers(pattern, resource) for pattern in self.resources)

    def covers(self, other: Rule) -> bool:
        """Whether this rule covers another one, which must be a single permission (see `rights`)."""
        if not _all_in(other.verbs, self.verbs):
            return False
        if other.urls:
            return all(any(_url_covers(url, wanted) for url in self.urls) for wanted in other.urls)
        if not _all_in(other.groups, self.groups):
            return False
        if self.names and not (other.names and set(other.names) <= set(self.names)):
            return False
        return all(any(_resource_covers(mine, wanted) for mine in self.resources) for wanted in other.resources)

    def rights(self) -> Iterator[Rule]:
        """Splits the rule into single permissions: one verb on one resource, name or URL each."""
        for verb in self.verbs:
            for group in self.groups:
                for resource in self.resources:
                    for name in self.names or (None,):
                        yield Rule((verb,), (group,), (resource,), (name,) if name is not None else ())
            for url in self.urls:
                yield Rule((verb,), urls=(url,))

    def to_json(self) -> dict[str, Any]:
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {key: list(value) for key, value in fields.items() if value}

    def __str__(self) -> str:
        """The rule as Kubernetes prints it in errors."""
        fields = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{key}:{quoted(value)}" for key, value in fields if value) + "}"


def quoted(words: Iterable[str]) -> str:
    """Formats a list of strings like Go's %q."""
    return "[" + " ".join(go_quote(word) for word in words) + "]"


def rule(
    verbs: Sequence[str],
    groups: Sequence[str] = (),
    resources: Sequence[str] = (),
    names: Sequence[str] = (),
    urls: Sequence[str] = (),
) -> Rule:
    return Rule(tuple(verbs), tuple(groups), tuple(resources), tuple(names), tuple(urls))


def parse_rules(rows: Iterable[Mapping[str, Any]] | None) -> tuple[Rule, ...]:
    return tuple(
        rule(
            row.get("verbs") or (),
            row.get("apiGroups") or (),
            row.get("resources") or (),
            row.get("resourceNames") or (),
            row.get("nonResourceURLs") or (),
        )
        for row in rows or ()
    )


def uncovered(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The permissions in `wanted` that `held` lacks, with verbs of the same resource joined."""
    lacking = [right for each in wanted for right in each.rights() if not any(mine.covers(right) for mine in held)]
    joined: dict[tuple[Any, ...], list[str]] = {}
    for right in lacking:
        verbs = joined.setdefault((right.groups, right.resources, right.names, right.urls), [])
        if right.verbs[0] not in verbs:
            verbs.append(right.verbs[0])
    return [Rule(tuple(verbs), *key) for key, verbs in joined.items()]


def _all_in(wanted: Sequence[str], held: Sequence[str]) -> bool:
    return "*" in held or set(wanted) <= set(held)


def _resource_covers(pattern: str, resource: str) -> bool:
    if pattern in ("*", resource):
        return True
    return pattern.startswith("*/") and resource.partition("/")[2] == pattern[2:]


def _url_covers(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern[:-1].rstrip("*"))
