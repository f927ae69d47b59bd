"""Decides whether a pod may run on a node: node selectors, node affinity, taints and tolerations. Pure; used by all
components that place pods.
"""

from __future__ import annotations

from podfit.api.objects import Object


def tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    if not toleration.get("key"):
        return False
    have, want = taint.get("value") or "", toleration.get("value") or ""
    if operator in ("Lt", "Gt"):
        try:
            return int(have) < int(want) if operator == "Lt" else int(have) > int(want)
        except ValueError:
            return False
    return bool(want == have)


def untolerated(taints: list[Object], tolerations: list[Object], effects: tuple[str, ...]) -> Object | None:
    """The first taint with one of the effects that no toleration matches."""
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def requirement_matches(requirement: Object, have: str | None) -> bool:
    """Matches one expression of a node selector against a value (None: no such label)."""
    operator, values = requirement.get("operator"), requirement.get("values") or []
    if operator == "In":
        return have is not None and have in values
    if operator == "NotIn":
        return have is None or have not in values
    if operator == "Exists":
        return have is not None
    if operator == "DoesNotExist":
        return have is None
    if operator in ("Gt", "Lt") and have is not None and len(values) == 1:
        try:
            return int(have) > int(values[0]) if operator == "Gt" else int(have) < int(values[0])
        except ValueError:
            return False
    return False


def term_matches(term: Object, labels: dict[str, str], name: str) -> bool:
    """A term matches when all its expressions and fields do; an empty one matches nothing."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(
        requirement_matches(expression, labels.get(expression.get("key", ""))) for expression in expressions
    ) and all(field.get("key") == "metadata.name" and requirement_matches(field, name) for field in fields)


def required_terms(spec: Object) -> list[Object] | None:
    """The terms of the pod's required node affinity; None if it has none."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def node_matches(spec: Object, node: Object) -> bool:
    """Whether a pod's node selector and required node affinity match this node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = required_terms(spec)
    return terms is None or any(term_matches(term, labels, node["metadata"]["name"]) for term in terms)
