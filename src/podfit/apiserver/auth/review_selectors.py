"""Validates selectors in access reviews, and finds those that are ignored because they cannot be parsed."""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.selectors import FieldSelector, FieldTerm, LabelSelector, SelectorError, requirement
from podfit.api.status import FieldError, invalid, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, names_valid

_OF_FIELDS = "fieldSelector"
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def selector_errors(selector: Object, field: str, path: str) -> list[FieldError]:
    raw, rows = selector.get("rawSelector"), selector.get("requirements")
    errors: Errors = []
    if raw and rows:
        errors.append(invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements"))
    if not raw and not rows:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(required(f"{path}.requirements", detail))
    for at, row in enumerate(rows or ()):
        _requirement(row, field, f"{path}.requirements[{at}]", errors)
    return errors


def _requirement(row: Object, field: str, path: str, errors: Errors) -> None:
    """Validates one requirement. Unknown operators are accepted: newer clients may send them."""
    key, operator, values = row.get("key") or "", row.get("operator"), row.get("values") or ()
    if field == _OF_FIELDS and not key:
        errors.append(required(f"{path}.key", "must be specified"))
    if operator in ("In", "NotIn") and not values:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    if operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{path}.values", detail))
    if field != _OF_FIELDS:
        names_valid(key, f"{path}.key", names.qualified_name(key), errors)
        for at, value in enumerate(values):
            names_valid(value, f"{path}.values[{at}]", names.label_value(value), errors)


def parse_problems(written: Object) -> list[str]:
    """The messages of a review about selectors that are ignored, wholly or in part."""
    problems = []
    for field, parse in _PARSERS.items():
        selector = written.get(field) or {}
        rows = selector.get("requirements") or []
        if raw := selector.get("rawSelector"):
            understood, given = int(_parses(raw, parse)), 1
        else:
            understood, given = sum(_understood(row, field) for row in rows), len(rows)
        if understood < given:
            part = "partially " if understood else ""
            problems.append(f"spec.resourceAttributes.{field} {part}ignored due to parse error")
    return problems


def _parses(text: str, parse: Callable[[str], object]) -> bool:
    try:
        parse(text)
    except SelectorError:
        return False
    return True


def _understood(row: Object, field: str) -> bool:
    operator, values = row.get("operator") or "", tuple(row.get("values") or ())
    if field == _OF_FIELDS:
        return operator in ("In", "NotIn") and len(values) == 1
    try:
        return operator in _OPERATORS and bool(requirement(row.get("key") or "", _OPERATORS[operator], values))
    except SelectorError:
        return False


def field_selector_text(selector: Object) -> str:
    if selector.get("rawSelector"):
        return str(selector["rawSelector"])
    rows = selector.get("requirements") or ()
    return str(
        FieldSelector(
            tuple(
                FieldTerm(str(row.get("key")), True, str(row["values"][0]))
                for row in rows
                if row.get("operator") == "In"
                and len(row.get("values") or ()) == 1
                and not set(str(row.get("key"))) & set(",=!\\")
            )
        )
    )


_PARSERS: dict[str, Callable[[str], object]] = {_OF_FIELDS: FieldSelector.parse, "labelSelector": LabelSelector.parse}
