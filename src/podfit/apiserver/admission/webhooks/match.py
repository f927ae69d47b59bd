"""Whether a hook wants to hear of a write: its rules, selectors and conditions. Rules compare what the path names;
a hook that lists another version of the same resource is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from podfit.api.kinds import NAMESPACE
from podfit.api.status import Object, not_found
from podfit.apiserver.admission.base import Attributes, Cluster, meta_of
from podfit.apiserver.auth.selectors import selects


class ConditionFailed(Exception):
    """A match condition could not be evaluated; the hook's failure policy decides what that means."""


def rules_match(hook: Object, attrs: Attributes) -> bool:
    return any(_rule_matches(rule, attrs) for rule in hook.get("rules") or ())


def _rule_matches(rule: Mapping[str, Any], attrs: Attributes) -> bool:
    return (
        _has(rule.get("operations"), attrs.operation)
        and _has(rule.get("apiGroups"), attrs.kind.group)
        and _has(rule.get("apiVersions"), attrs.kind.version)
        and _scope_matches(rule.get("scope") or "*", attrs)
        and any(_resource_matches(entry, attrs) for entry in rule.get("resources") or ())
    )


def _has(listed: list[str] | None, value: str) -> bool:
    return bool(listed) and ("*" in listed or value in listed)  # type: ignore[operator]


def _resource_matches(entry: str, attrs: Attributes) -> bool:
    resource, _, subresource = entry.partition("/")
    return resource in ("*", attrs.kind.plural) and subresource in ("*", attrs.subresource)


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
        # A namespace is judged by its own labels: the new ones when there are any.
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
        # What has no metadata (the options of a CONNECT) has no labels to be selected by, not even by their absence.
        obj is not None and "metadata" in obj and selects(selector, meta_of(obj).get("labels") or {})
        for obj in (attrs.object, attrs.old)
    )


def conditions_match(hook: Object, request: Object) -> bool:
    """All conditions are true. A false one decides even when another cannot be evaluated."""
    problems = []
    for condition in hook.get("matchConditions") or ():
        try:
            result = _evaluate(str(condition.get("expression", "")), request)
        except Exception as error:
            problems.append(f"match condition '{condition.get('name')}': {error}")
            continue
        if result is not True:
            return False
    if problems:
        raise ConditionFailed("[" + ", ".join(problems) + "]" if len(problems) > 1 else problems[0])
    return True


def _evaluate(expression: str, request: Object) -> Any:
    variables = {"object": request.get("object"), "oldObject": request.get("oldObject"), "request": request}
    return _compiled(expression).execute(variables)


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    # Imported where it is used: the library brings a terminal along, and most servers never meet a rule.
    import cel

    return cel.compile(expression)
