"""Names, selectors and configurations shared by claims, classes and slices."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from podfit.api.cel.evaluation.program import Environment
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.cel.types import BOOL, DYN, QUANTITY, STRING, Type, map_of
from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required, too_long, too_many
from podfit.api.text import names
from podfit.api.text.remember import remembered
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.checks import expression_error, label_name, names_valid
from podfit.apiserver.strategy.storage.csi import driver_name

Check = Callable[[Any, str, Errors], None]

MOST_REQUESTS = 32
_LONGEST_ID, _LONGEST_EXPRESSION, _LONGEST_PARAMETERS = 32, 10 * 1024, 10 * 1024
_LONGEST_POOL = 253
EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_BAD_IDENTIFIER = names.regex_complaint(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_'",
    _IDENTIFIER,
    "my_name",
    "MY_NAME",
    "MyName",
)
_OF_DOMAINS = {"attributes": DYN, "capacity": QUANTITY}
"""The types of a device's attributes and capacities, which are looked up by domain and name."""
_DEVICE = Type(
    "object",
    name="kubernetes.DRADevice",
    fields={
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        **{field: map_of(STRING, map_of(STRING, value)) for field, value in _OF_DOMAINS.items()},
    },
)
_ENVIRONMENT = Environment({"device": _DEVICE})


def each(rows: list[Any] | None, most: int, check: Check, path: str, errors: Errors) -> bool:
    """Checks the items of a list, unless the list is too long. Returns whether the items were checked."""
    if len(rows or ()) > most >= 0:
        errors.append(too_many(path, len(rows or ()), most))
        return False
    for at, row in enumerate(rows or ()):
        check(row, f"{path}[{at}]", errors)
    return True


def unique(
    rows: list[Any] | None, most: int, check: Check, key: Callable[[Any], Any], path: str, errors: Errors
) -> None:
    """Like `each`, and rejects duplicate keys."""
    if not each(rows, most, check, path, errors):
        return
    seen: list[Any] = []
    for at, row in enumerate(rows or ()):
        if key(row) in seen:
            errors.append(duplicate(f"{path}[{at}]", key(row)))
        seen.append(key(row))


def label(name: str, path: str, errors: Errors) -> None:
    names_valid(name, path, names.dns_label(name), errors)


def pool_name(name: str, path: str, errors: Errors) -> None:
    if not name:
        errors.append(required(path))
        return
    if len(name.encode()) > _LONGEST_POOL:
        errors.append(too_long(path, _LONGEST_POOL))
    for part in name.split("/"):
        names_valid(part, path, names.dns_subdomain(part), errors)


def qualified(name: str, path: str, errors: Errors) -> None:
    """Checks the name of an attribute or capacity, with or without a domain."""
    parts = name.split("/")
    if len(parts) == 1:
        _identifier(name, path, errors)
    elif len(parts) == 2:
        if parts[0]:
            driver_name(parts[0], path, errors)
        else:
            errors.append(invalid(path, "", "the domain must not be empty"))
        if parts[1]:
            _identifier(parts[1], path, errors)
        else:
            errors.append(invalid(path, "", "the name must not be empty"))


def fully_qualified(name: str, path: str, errors: Errors) -> None:
    qualified(name, path, errors)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, name, detail))


def _identifier(text: str, path: str, errors: Errors) -> None:
    if len(text.encode()) > _LONGEST_ID:
        errors.append(too_long(path, _LONGEST_ID))
    if not re.fullmatch(_IDENTIFIER, text):
        errors.append(invalid(path, text, _BAD_IDENTIFIER))


@remembered(1024)
def _problem(text: str) -> str:
    try:
        program = _ENVIRONMENT.compile(text)
    except BadExpression as error:
        return str(error)
    return "" if program.type in (BOOL, DYN) else f"must evaluate to bool or the unknown type, not {program.type}"


def selector(row: Object, path: str, errors: Errors) -> None:
    if row.get("cel") is None:
        errors.append(required(f"{path}.cel"))
        return
    text, where = row["cel"].get("expression", ""), f"{path}.cel.expression"
    if len(text.encode()) > _LONGEST_EXPRESSION:
        errors.append(too_long(where, _LONGEST_EXPRESSION))
    elif found := _problem(text):
        errors.append(expression_error(where, text, found))


def configuration(row: Object, path: str, errors: Errors) -> None:
    opaque = row.get("opaque")
    if opaque is None:
        errors.append(required(f"{path}.opaque"))
        return
    driver_name(opaque.get("driver", ""), f"{path}.opaque.driver", errors)
    raw(opaque.get("parameters"), f"{path}.opaque.parameters", errors)


def raw(value: Any, path: str, errors: Errors) -> None:
    if value is None:
        errors.append(required(path))
    elif len(json.dumps(value, separators=(",", ":")).encode()) > _LONGEST_PARAMETERS:
        errors.append(too_long(path, _LONGEST_PARAMETERS))
    elif not isinstance(value, dict):
        errors.append(invalid(path, "<value omitted>", "must be a valid JSON object"))


def toleration(row: Object, path: str, errors: Errors) -> None:
    key, operator, value = (row.get(field, "") for field in ("key", "operator", "value"))
    if key:
        label_name(key, f"{path}.key", errors)
    if operator == "Exists":
        if value:
            errors.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        names_valid(value, f"{path}.value", names.label_value(value), errors)
    elif not operator:
        errors.append(required(f"{path}.operator"))
    else:
        errors.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    if row.get("effect") and row["effect"] not in EFFECTS:
        errors.append(not_supported(f"{path}.effect", row["effect"], EFFECTS))


def binding_conditions(row: Object, path: str, errors: Errors) -> None:
    wanted, failed = row.get("bindingConditions") or [], row.get("bindingFailureConditions") or []
    each(wanted, 4, label_name, f"{path}.bindingConditions", errors)
    each(failed, 4, label_name, f"{path}.bindingFailureConditions", errors)
    _repeated(wanted, f"{path}.bindingConditions", errors)
    where = f"{path}.bindingFailureConditions"
    for at, condition in enumerate(failed):
        if condition in failed[:at]:
            errors.append(duplicate(f"{where}[{at}]", condition))
        if condition in wanted:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(f"{where}[{at}]", condition, detail))
    for mine, other in (
        ("bindingConditions", "bindingFailureConditions"),
        ("bindingFailureConditions", "bindingConditions"),
    ):
        if not row.get(mine) and row.get(other):
            errors.append(invalid(f"{path}.{mine}", row.get(mine), f"{mine} are required to use {other}"))


def _repeated(words: Iterable[str], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, word in enumerate(words):
        if word in seen:
            errors.append(duplicate(f"{path}[{at}]", word))
        seen.add(word)
