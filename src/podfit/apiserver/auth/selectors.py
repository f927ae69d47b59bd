"""Evaluates label selectors in objects (matchLabels, matchExpressions), for aggregation rules and webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels. An empty selector matches everything, None nothing."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_matches_row(row, labels) for row in selector.get("matchExpressions") or ())


def _matches_row(row: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(row.get("key", ""))
    match row.get("operator"):
        case "In":
            return value is not None and value in (row.get("values") or ())
        case "NotIn":
            return value is None or value not in (row.get("values") or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
