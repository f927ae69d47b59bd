"""Matches writes against the rules and selectors of webhooks.

Rules are compared with the path. With `matchPolicy: Equivalent`, a hook whose rules name the same resource in another
group or version is called, too, with the object converted to that version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, Kind
from podfit.api.status import not_found
from podfit.apiserver.admission.base import Attributes, Cluster, meta_of
from podfit.apiserver.auth.selectors import selects


def rules_match(hook: Object, attrs: Attributes, alike: Callable[[Kind], Sequence[Kind]]) -> Kind | None:
    """The kind in which the hook gets the object; None if the hook does not match."""
    rules = hook.get("rules") or ()
    if any(_rule_matches(rule, attrs, attrs.kind) for rule in rules):
        return attrs.kind
    if hook.get("matchPolicy") == "Exact":
        return None
    for other in alike(attrs.kind):
        if any(_rule_matches(rule, attrs, other) for rule in rules):
            return other
    return None


def _rule_matches(rule: Mapping[str, Any], attrs: Attributes, kind: Kind) -> bool:
    return (
        _has(rule.get("operations"), attrs.operation)
        and _has(rule.get("apiGroups"), kind.group)
        and _has(rule.get("apiVersions"), kind.version)
        and _scope_matches(rule.get("scope") or "*", attrs)
        and any(_resource_matches(entry, attrs, kind) for entry in rule.get("resources") or ())
    )


def _has(listed: list[str] | None, value: str) -> bool:
    return bool(listed) and ("*" in listed or value in listed)  # type: ignore[operator]


def _resource_matches(entry: str, attrs: Attributes, kind: Kind) -> bool:
    resource, _, subresource = entry.partition("/")
    return resource in ("*", kind.plural) and subresource in ("*", attrs.subresource)


def _scope_matches(scope: str, attrs: Attributes) -> bool:
    return scope == "*" or (scope == "Namespaced") == attrs.kind.namespaced


def selectors_match(hook: Object, attrs: Attributes, cluster: Cluster) -> bool:
    return _namespace_matches(hook.get("namespaceSelector"), attrs, cluster) and _object_matches(
        hook.get("objectSelector"), attrs
    )


def _namespace_matches(selector: Object | None, attrs: Attributes, cluster: Cluster) -> bool:
    if not selector:
        return True
    if attrs.resource == ("", "namespaces"):
        # A namespace is matched by its own labels: those of the new object, or of the old one on deletion.
        subject = attrs.object if attrs.object is not None and not attrs.subresource else attrs.old
        return selects(selector, meta_of(subject).get("labels") or {})
    if not attrs.namespace:
        return True
    namespace = cluster.get(NAMESPACE, "", attrs.namespace)
    if namespace is None:
        raise not_found("namespaces", attrs.namespace)
    return selects(selector, meta_of(namespace).get("labels") or {})


def _object_matches(selector: Object | None, attrs: Attributes) -> bool:
    if not selector:
        return True
    return any(
        # An object without metadata (the options of a CONNECT) has no labels, and no selector matches it, not even by
        # absence.
        obj is not None and "metadata" in obj and selects(selector, meta_of(obj).get("labels") or {})
        for obj in (attrs.object, attrs.old)
    )
