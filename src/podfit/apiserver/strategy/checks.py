"""Checks shared by many kinds: numbers, ports, addresses, paths, label selectors, and semantic equality.

Each check appends to the given list of errors, so that a valid object costs no allocations.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import Quantity, QuantityError
from podfit.api.schema import optional_structs
from podfit.api.status import INTERNAL, FieldError, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.api.text.formats import fits
from podfit.api.text.remember import remembered

Errors = list[FieldError]

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
_AMOUNTS = frozenset(
    ("requests", "limits", "overhead", "capacity", "allocatable", "hard", "used", "allocatedResources")
)
_FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def non_negative(holder: Mapping[str, Any], field: str, path: str, errors: Errors) -> None:
    value = holder.get(field)
    if value is not None and value < 0:
        errors.append(invalid(f"{path}.{field}", value, NOT_NEGATIVE))


def names_valid(value: str | int, path: str, complaints: Iterable[str], errors: Errors) -> None:
    for text in complaints:
        errors.append(invalid(path, value, text))


def chosen(value: str | None, path: str, allowed: Sequence[str], errors: Errors) -> None:
    """Checks a required value from an enumeration."""
    if not value:
        errors.append(required(path))
    elif value not in allowed:
        errors.append(not_supported(path, value, allowed))


def port(value: int | str | None, path: str, errors: Errors) -> None:
    """Checks a port, given by number or by name."""
    if isinstance(value, str):
        names_valid(value, path, names.port_name(value), errors)
    else:
        number = value or 0
        for text in names.port_number(number):
            errors.append(invalid(path, number, text))


@remembered(16384)
def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in text:
        return None
    if text.count(".") == 3 and ":" not in text:
        # Kubernetes parses 010.0.0.1 as 10.0.0.1, as Go did before it rejected leading zeros.
        text = ".".join(part.lstrip("0") or part[:1] for part in text.split("."))
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def ip(text: str, path: str, errors: Errors) -> None:
    if parse_ip(text) is None:
        errors.append(invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))


def cidr(text: str, path: str, errors: Errors) -> None:
    address, _, bits = text.partition("/")
    parsed = parse_ip(address)
    if parsed is None or not fits(bits, parsed.max_prefixlen):
        errors.append(invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))


def same_family_twice(addresses: Sequence[str]) -> bool:
    """Whether a list has more than one address of a family."""
    families = [parsed.version for text in addresses if (parsed := parse_ip(text)) is not None]
    return len(families) != len(set(families)) or len(addresses) > 2


def no_backsteps(text: str, path: str, errors: Errors) -> None:
    if ".." in text.split("/"):
        errors.append(invalid(path, text, "must not contain '..'"))


def local_descending_path(text: str, path: str, errors: Errors) -> None:
    if text.startswith("/"):
        errors.append(invalid(path, text, "must be a relative path"))
    no_backsteps(text, path, errors)


def local_non_reserved_path(text: str, path: str, errors: Errors) -> None:
    local_descending_path(text, path, errors)
    # Paths that begin with ".." are reserved for atomic updates of mounted files.
    if text.startswith("..") and not text.startswith("../"):
        errors.append(invalid(path, text, "must not start with '..'"))


def file_mode(holder: Mapping[str, Any], field: str, path: str, errors: Errors) -> None:
    mode = holder.get(field)
    if mode is not None and not 0 <= mode <= 0o777:
        errors.append(invalid(f"{path}.{field}", mode, _FILE_MODE))


def expression_error(path: str, text: str, problem: str) -> FieldError:
    """An error in an expression. Kubernetes reports those that it finds by evaluating constants as internal errors."""
    if problem.startswith("program instantiation failed"):
        return FieldError(INTERNAL, path, problem)
    return invalid(path, text, problem)


# --- label selectors ----------------------------------------------------------------------------------------------


def labels(values: Mapping[str, str] | None, path: str, errors: Errors) -> None:
    for key, value in (values or {}).items():
        for text in names.qualified_name(key):
            errors.append(invalid(path, key, text))
        for text in names.label_value(value):
            errors.append(invalid(path, value, text))


def label_name(key: str, path: str, errors: Errors) -> None:
    names_valid(key, path, names.qualified_name(key), errors)


def label_selector(selector: Mapping[str, Any] | None, path: str, errors: Errors) -> None:
    if not selector:
        return
    labels(selector.get("matchLabels"), f"{path}.matchLabels", errors)
    for at, expression in enumerate(selector.get("matchExpressions") or ()):
        _requirement(expression, f"{path}.matchExpressions[{at}]", errors)


def _requirement(expression: Mapping[str, Any], path: str, errors: Errors) -> None:
    operator = expression.get("operator", "")
    values = expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(
                forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    label_name(expression.get("key", ""), f"{path}.key", errors)
    for at, value in enumerate(values):
        names_valid(value, f"{path}.values[{at}]", names.label_value(value), errors)


def selector_usable(selector: Mapping[str, Any] | None) -> bool:
    """Whether a selector is valid. None is valid and selects nothing."""
    errors: Errors = []
    label_selector(selector, "", errors)
    return not errors


def selector_matches(selector: Mapping[str, Any] | None, values: Mapping[str, str] | None) -> bool:
    """Whether labels match a selector; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    found = values or {}
    if any(found.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_satisfied(expression, found) for expression in selector.get("matchExpressions") or ())


def _satisfied(expression: Mapping[str, Any], found: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return key in found and found[key] in values
        case "NotIn":
            return key not in found or found[key] not in values
        case "Exists":
            return key in found
        case "DoesNotExist":
            return key not in found
    return False


# --- equality -----------------------------------------------------------------------------------------------------


def equal(one: Any, other: Any, key: str = "") -> bool:
    """Go's semantic equality: absent equals empty, except for pointers to structs; quantities are compared by
    amount."""
    if one == other:
        return True
    if not one and not other:
        if not (_collection(one) and _collection(other)):
            return False
        return isinstance(one, list) or isinstance(other, list) or key not in optional_structs()
    if isinstance(one, dict) and isinstance(other, dict):
        return _same_amounts(one, other) if key in _AMOUNTS else same_fields(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return False


def _collection(value: Any) -> bool:
    return value is None or isinstance(value, (dict, list))


def same_fields(one: Object, other: Object, but: str = "") -> bool:
    """Whether two objects are equal in all fields, or in all but one."""
    for name, mine in one.items():
        theirs = other.get(name)
        # Versions of an object share unchanged parts, so identity is checked first.
        if mine is not theirs and name != but and not equal(mine, theirs, name):
            return False
    if one.keys() == other.keys():
        return True
    return all(name in one or name == but or equal(None, theirs, name) for name, theirs in other.items())


def _same_amounts(one: Object, other: Object) -> bool:
    if one.keys() != other.keys():
        return False
    try:
        return all(Quantity.parse(one[name]) == Quantity.parse(other[name]) for name in one)
    except QuantityError:
        return False
