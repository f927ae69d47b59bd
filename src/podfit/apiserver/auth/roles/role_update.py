"""Reconciles stored roles and bindings with the default ones, as kube-apiserver does at its start. Pure.

Missing rules, subjects, labels and annotations are added, and none are removed. An object with the annotation
`rbac.authorization.kubernetes.io/autoupdate: "false"` is not changed.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.auth.roles.rules import parse_rules, uncovered

GROUP = "rbac.authorization.k8s.io"
_AUTO = "rbac.authorization.kubernetes.io/autoupdate"


def is_replaced(stored: Object, wanted: Object) -> bool:
    """Whether a binding refers to another role, which is immutable: it is deleted and created again."""
    return "roleRef" in wanted and stored.get("roleRef") != wanted["roleRef"] and not _is_protected(stored)


def completed(stored: Object, wanted: Object) -> Object | None:
    """A copy of `stored` with the missing parts of `wanted`; None if nothing is missing, or if it must not be
    changed."""
    if _is_protected(stored):
        return None
    found = {**stored, "metadata": _with_notes(stored["metadata"], wanted["metadata"])}
    if "roleRef" in wanted:
        _add_subjects(found, wanted)
    else:
        _add_rules(found, wanted)
        _add_selectors(found, wanted)
    return None if found == stored else found


def _is_protected(stored: Object) -> bool:
    return (stored["metadata"].get("annotations") or {}).get(_AUTO) == "false"


def _with_notes(held: Object, wanted: Object) -> Object:
    """Adds missing labels and annotations; present values are kept."""
    merged = {
        field: {**(wanted.get(field) or {}), **(held.get(field) or {})}
        for field in ("labels", "annotations")
        if wanted.get(field)
    }
    return {**held, **merged}


def _add_rules(found: Object, wanted: Object) -> None:
    lacking = uncovered(parse_rules(found.get("rules")), parse_rules(wanted.get("rules")))
    if lacking:
        found["rules"] = [*(found.get("rules") or []), *(each.to_json() for each in lacking)]


def _add_selectors(found: Object, wanted: Object) -> None:
    if "aggregationRule" not in wanted:
        found.pop("aggregationRule", None)
        return
    held = (found.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    lacking = [selector for selector in wanted["aggregationRule"]["clusterRoleSelectors"] if selector not in held]
    if lacking:
        found["aggregationRule"] = {"clusterRoleSelectors": [*held, *lacking]}


def _add_subjects(found: Object, wanted: Object) -> None:
    held = found.get("subjects") or []
    lacking = [subject for subject in wanted.get("subjects") or () if subject not in held]
    if lacking:
        found["subjects"] = [*held, *lacking]
