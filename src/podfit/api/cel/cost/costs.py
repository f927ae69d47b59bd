"""The run-time cost of calls, as counted by cel-go and Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from podfit.api.cel.cost.estimate_calls import CHECK_COST, NOMINAL
from podfit.api.cel.cost.sizes import LIST_COST, PATTERN, STRUCT_COST, TRAVERSAL
from podfit.api.cel.library.functions import Overload
from podfit.api.cel.library.kubernetes import Format
from podfit.api.cel.values import LISTS, size_of

Cost = Callable[[tuple[Any, ...], Any], int]
"""A function that computes the cost from the arguments (the receiver first) and the result."""


def cost_of(overload: Overload) -> int | Cost:
    """The cost of a call: a number if it is constant, otherwise a function."""
    return _COSTS.get(overload.id) or _COSTS.get(overload.function) or 1


def _read(factor: float = TRAVERSAL) -> Cost:
    return lambda args, result: ceil(size_of(args[0]) * factor)


def _selector(args: tuple[Any, ...], result: Any) -> int:
    size = size_of(args[1])
    return LIST_COST + ceil(size * TRAVERSAL) + ceil(ceil(size * 0.5) * float(LIST_COST + STRUCT_COST))


def traversal(value: Any) -> int:
    """The cost of traversing a value completely."""
    total, left = 0, [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            total += int((len(item) if item.isascii() else len(item.encode())) * TRAVERSAL)
        elif isinstance(item, bytes):
            total += int(len(item) * TRAVERSAL)
        elif isinstance(item, LISTS):
            left.extend(item)
        elif isinstance(item, dict):
            left.extend(item)
            left.extend(item.values())
        else:
            total += 1
    return total


def _pattern(args: tuple[Any, ...], result: Any) -> int:
    return ceil((1.0 + size_of(args[0])) * TRAVERSAL) * ceil(size_of(args[1]) * PATTERN)


def _contains(args: tuple[Any, ...], result: Any) -> int:
    return ceil(size_of(args[0]) * TRAVERSAL) * ceil(size_of(args[1]) * TRAVERSAL)


def _smaller(args: tuple[Any, ...], result: Any) -> int:
    return ceil(min(size_of(args[0]), size_of(args[1])) * TRAVERSAL)


def _both(args: tuple[Any, ...], result: Any) -> int:
    return ceil((size_of(args[0]) + size_of(args[1])) * TRAVERSAL)


def _within(of_cidr: bool) -> Cost:
    def cost(args: tuple[Any, ...], result: Any) -> int:
        size = size_of(args[0])
        total = ceil((size + size) * TRAVERSAL)
        if of_cidr:
            total += ceil(size * TRAVERSAL) + 1
        if isinstance(args[1], str):
            total += ceil(len(args[1]) * TRAVERSAL)
        return total

    return cost


def _validate(args: tuple[Any, ...], result: Any) -> int:
    form = args[0]
    size = form.pattern_size if isinstance(form, Format) else 0
    return ceil((1.0 + size_of(args[1])) * TRAVERSAL) * ceil(size * PATTERN)


def _allocated(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST_COST


def _compared(at: int) -> Cost:
    """The cost of comparing each item of a list with each other item."""

    def cost(args: tuple[Any, ...], result: Any) -> int:
        items = args[at]
        text = len(items) > 0 and isinstance(items[0], (str, bytes))
        return _allocated(2 + TRAVERSAL if text else 2.0, len(items) ** 2)

    return cost


def _sets(factor: int) -> Cost:
    return lambda args, result: 1 + size_of(args[0]) * size_of(args[1]) * factor


def _table() -> dict[str, int | Cost]:
    found: dict[str, int | Cost] = {"check": CHECK_COST, "fieldSelector": _selector, "labelSelector": _selector}
    for name in NOMINAL:
        found[name] = 1
    for name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"):
        found[name] = lambda args, result: traversal(args[0])
    read = "url lowerAscii upperAscii substring trim cidr isIP isCIDR ip quantity isQuantity semver isSemver"
    for name in (
        *read.split(),
        "jsonpatch.escapeKey",
        "starts_with_string",
        "ends_with_string",
        "string_to_bytes",
        "bytes_to_string",
    ):
        found[name] = _read()
    for name in ("replace", "split", "ip.isCanonical"):
        found[name] = _read(2 * TRAVERSAL)
    for order in ("less", "greater", "less_equals", "greater_equals"):
        found |= {f"{order}_string": _smaller, f"{order}_bytes": _smaller}
    found |= {"cidr_ip": 1, "join": lambda args, result: ceil(size_of(result) * 2 * TRAVERSAL)}
    found |= {"find": _pattern, "findAll": _pattern, "matches_string": _pattern, "contains_string": _contains}
    found |= {"strings_quote": _read(), "string_format": _read(), "in_list": lambda args, result: size_of(args[1])}
    found |= {"equals": _smaller, "not_equals": _smaller, "add_string": _both, "add_bytes": _both}
    found |= {"containsIP": _within(False), "containsCIDR": _within(True), "validate": _validate}
    for name in ("list_slice", "lists_range", "list_reverse"):
        found[name] = lambda args, result: _allocated(1, len(result))
    found["list_flatten"] = lambda args, result: _allocated(1, len(args[0]))
    found["list_flatten_int"] = lambda args, result: _allocated(args[1], len(args[0]))
    found |= {"list_distinct": _compared(0), "sort": _compared(0), "@sortByAssociatedKeys": _compared(1)}
    found |= {"sets.contains": _sets(1), "sets.intersects": _sets(1), "sets.equivalent": _sets(2)}
    return found


_COSTS = _table()
