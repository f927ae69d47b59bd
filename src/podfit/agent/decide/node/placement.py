"""Decides whether a pod may run on this node at all: by its node selector and required node affinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REFUSAL = ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
"""The reason and message of the rejection."""


def matches(spec: Mapping[str, Any], labels: Mapping[str, str], node_name: str) -> bool:
    selector = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term(term, labels, node_name) for term in required.get("nodeSelectorTerms") or ())


def _term(term: Mapping[str, Any], labels: Mapping[str, str], node_name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    own = {"metadata.name": node_name}
    return all(_holds(expression, labels) for expression in expressions) and all(_holds(field, own) for field in fields)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    present = key in labels
    if operator == "In":
        return present and labels[key] in values
    if operator == "NotIn":
        return not present or labels[key] not in values
    if operator == "Exists":
        return present
    if operator == "DoesNotExist":
        return not present
    if not present or len(values) != 1:
        return False
    try:
        mine, bound = int(labels[key]), int(values[0])
    except ValueError:
        return False
    return mine > bound if operator == "Gt" else mine < bound if operator == "Lt" else False
