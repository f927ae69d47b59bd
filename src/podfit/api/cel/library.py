"""Kubernetes' functions for CEL: strings, lists, sets, patterns, quantities, URLs and addresses.

A method's receiver is its first argument. Values that CEL has no type for travel as maps with one tagged entry; that
is why functions of the same name (`isLessThan`, `contains`, `indexOf`) tell their meanings apart by what they get.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from podfit.api.cel import addresses
from podfit.api.patterns import compile_pattern
from podfit.api.quantity import NANO, Quantity, QuantityError

_QUANTITY = "k8s.quantity"
NAMESPACES: dict[str, Any] = {"sets": {"k8s.sets": True}}


# --- strings -------------------------------------------------------------------------------------------------------


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise ValueError(f"index out of range: {at}")
    return text[at : at + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"index out of range: {start}")
    return text[start:end]


def _index_of(value: Any, part: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return value.find(part, start)
    return next((at for at, item in enumerate(value) if item == part), -1)


def _last_index_of(value: Any, part: Any, end: int | None = None) -> int:
    if isinstance(value, str):
        return value.rfind(part) if end is None else value.rfind(part, 0, end + len(part))
    return next((at for at in range(len(value) - 1, -1, -1) if value[at] == part), -1)


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not by:
        return list(text) if most < 0 else [*text[: most - 1], text[most - 1 :]]
    return text.split(by) if most < 0 else text.split(by, most - 1)


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


def _lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _upper(text: str) -> str:
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


_VERB = re.compile(r"%(%|\.?\d*[sdfeboxX])")


def _format(text: str, values: list[Any]) -> str:
    left = list(values)

    def shown(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        if not left:
            raise ValueError("index out of range")
        value = left.pop(0)
        return _text(value) if found[1].endswith("s") else f"%{found[1]}" % value

    return _VERB.sub(shown, text)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)


# --- patterns, lists, sets -----------------------------------------------------------------------------------------


def _find(text: str, pattern: str) -> str:
    found = compile_pattern(pattern).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [one[0] for one in compile_pattern(pattern).finditer(text)]
    return found if most < 0 else found[:most]


def _contains(value: Any, *more: Any) -> bool:
    """Of a string its part, or of sets (`sets.contains(a, b)`) all of them."""
    if isinstance(value, str):
        return more[0] in value
    if "k8s.sets" in value:
        return all(item in more[0] for item in more[1])
    raise TypeError("no such overload")


def _extreme(pick: Callable[[list[Any]], Any], word: str) -> Callable[[list[Any]], Any]:
    def chosen(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{word} called on empty list")
        return pick(values)

    return chosen


# --- quantities ----------------------------------------------------------------------------------------------------


def _quantity(text: str) -> dict[str, Any]:
    return {_QUANTITY: str(Quantity.parse(text))}


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _read(value: Any) -> Quantity:
    if isinstance(value, int):
        return Quantity.of_units(value)
    return Quantity.parse(value[_QUANTITY])


def _compare(left: Any, right: Any) -> int:
    one, other = _read(left).nanos, _read(right).nanos
    return (one > other) - (one < other)


def _as_integer(value: Any) -> int:
    quantity = _read(value)
    if quantity.nanos % NANO:
        raise ValueError("cannot convert value to integer")
    return quantity.nanos // NANO


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "charAt": _char_at,
    "substring": _substring,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "split": _split,
    "join": lambda values, by="": by.join(values),
    "replace": _replace,
    "lowerAscii": _lower,
    "upperAscii": _upper,
    "trim": str.strip,
    "format": _format,
    "find": _find,
    "findAll": _find_all,
    "contains": _contains,
    "equivalent": lambda _, left, right: all(x in right for x in left) and all(x in left for x in right),
    "intersects": lambda _, left, right: any(item in right for item in left),
    "isSorted": lambda values: all(one <= other for one, other in pairwise(values)),
    "sum": sum,
    "min": _extreme(min, "min"),
    "max": _extreme(max, "max"),
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "compareTo": _compare,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isInteger": lambda value: _read(value).nanos % NANO == 0,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: _read(value).nanos / NANO,
    "sign": lambda value: _compare(value, 0),
    "add": lambda left, right: {_QUANTITY: str(_read(left) + _read(right))},
    "sub": lambda left, right: {_QUANTITY: str(_read(left) - _read(right))},
    **addresses.FUNCTIONS,
}
