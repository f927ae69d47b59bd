"""Estimated costs of function calls, and estimated sizes of their results."""

from __future__ import annotations

import math
from collections.abc import Callable

from podfit.api.cel.cost.sizes import LIST_COST, MOST, ONE, PATTERN, STRUCT_COST, TRAVERSAL, Operand, Range
from podfit.api.cel.parsing.syntax import Literal

Estimate = tuple[Range, Range | None] | None
Estimator = Callable[[str, Operand | None, list[Operand]], Estimate]
CHECK_COST = 350_000
_MOST_NAME_PATTERN, _MOST_FORMAT = 128, 64


def _fixed(cost: int) -> Estimator:
    return lambda overload, target, args: (Range(cost, cost), None)


def _traversal(factor: float = TRAVERSAL, result: bool = False) -> Estimator:
    """The estimate for a function that reads its argument once."""

    def estimate(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
        size = args[0].size
        return size.scaled(factor), size if result else None

    return estimate


def _receiver_traversal(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    if target is None:
        return None
    return target.size.scaled(TRAVERSAL), target.size


def _selector(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    size = args[0].size
    requirements = size.scaled(0.5).scaled(float(LIST_COST + STRUCT_COST))
    return Range(LIST_COST, LIST_COST) + size.scaled(TRAVERSAL) + requirements, None


def _each(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    """The estimate for a function that visits every item once."""
    if target is None:
        return None
    items = target.items
    if items is None:
        return target.size.scaled(TRAVERSAL), None
    cost = ONE
    if items.type.kind in ("string", "bytes"):
        cost += items.size.scaled(TRAVERSAL)
    return target.size * cost, None


def _replace(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.size, args[0].size, args[1].size
    most, kept_most = math.ceil(size.high / old.low) if old.low else min(MOST, size.high + 1), 0
    if not old.low:
        kept_most = size.high
    elif new.high <= old.low:
        most, kept_most = 0, size.high
    least, kept_least = math.ceil(size.low / old.high) if old.high else min(MOST, size.low + 1), 0
    if not old.high:
        kept_least = size.low
    elif old.high <= new.low:
        least, kept_least = 0, size.low
    result = Range(least, min(MOST, most)) * new + Range(kept_least, kept_most)
    return size.scaled(2 * TRAVERSAL), result


def _split(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    if target is None:
        return None
    most = target.size.high
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        most = args[1].node.value & MOST
    return target.size.scaled(2 * TRAVERSAL), Range(0, most)


def _join(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    if target is None:
        return None
    count, items = target.size, target.items
    size = count * items.size if items is not None else Range(0, 0)
    if args:
        size += args[0].size * Range(max(0, count.low - 1), max(0, count.high - 1))
    return size.scaled(TRAVERSAL), size


def _find(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    if target is None or not args:
        return None
    cost = (target.size + ONE).scaled(TRAVERSAL) * args[0].size.scaled(PATTERN)
    return cost, Range(0, target.size.high)


def _ip(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    return (ONE, None) if overload == "cidr_ip" else (args[0].size.scaled(TRAVERSAL), None)


def _contains(of_cidr: bool) -> Estimator:
    def estimate(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
        size = Range(4, 16)
        cost = (size + size).scaled(TRAVERSAL)
        if of_cidr:
            cost = cost + size.scaled(TRAVERSAL) + ONE
        if overload.endswith("_string"):
            cost += args[0].size.scaled(TRAVERSAL)
        return cost, None

    return estimate


def _validate(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    return args[0].size.scaled(TRAVERSAL).scaled(_MOST_NAME_PATTERN * PATTERN), None


_CONSTANT_EQUALITY = {"kubernetes.Quantity", "kubernetes.Semver", "net.IP", "net.CIDR"}
_AUTHORIZATION = "kubernetes.authorization."


def _equal(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    left, right = args
    name = left.type.name
    if left.type != right.type or left.type.fields is not None:
        return None
    if name in _CONSTANT_EQUALITY or name.startswith(_AUTHORIZATION):
        return ONE, None
    if name == "kubernetes.NamedFormat":
        return Range(1, _MOST_FORMAT).scaled(TRAVERSAL), None
    if name == "kubernetes.URL":
        return Range(1, right.computed.high if right.computed else 1).scaled(TRAVERSAL), None
    return None


# --- lists and sets ---------------------------------------------------------------------------------------------------


def _allocated(factor: float, size: Range) -> Estimate:
    return size.scaled(factor) + ONE + Range(LIST_COST, LIST_COST), size


def _number(operand: Operand, otherwise: int) -> int:
    node = operand.node
    return max(0, node.value) if isinstance(node, Literal) and type(node.value) is int else otherwise


def _slice(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    size = (_number(args[1], target.size.high) - _number(args[0], 0)) & MOST
    return _allocated(1, Range(size, size))


def _range(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    size = _number(args[0], MOST)
    return _allocated(1, Range(size, size))


def _flatten(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    return _allocated(float(_number(args[0], MOST)) if args else 1.0, target.size)


def _reverse(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    return None if target is None else _allocated(1, target.size)


def _distinct(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    return None if target is None else _allocated(2, target.size * target.size)


def _sort(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    sorted_by = args[0] if args else target
    assert sorted_by is not None
    text = overload.split("_")[1] in ("string", "bytes")
    return _allocated(2 + TRAVERSAL if text else 2, sorted_by.size * sorted_by.size)


def _sets(factor: float) -> Estimator:
    return lambda overload, target, args: ((args[0].size * args[1].size).scaled(factor) + ONE, None)


def _table() -> dict[str, Estimator]:
    """The table of estimates, by function, or by overload if cel-go estimates it separately."""
    found: dict[str, Estimator] = {"check": _fixed(CHECK_COST), "fieldSelector": _selector, "labelSelector": _selector}
    for name in NOMINAL:
        found[name] = _fixed(1)
    for name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"):
        found[name] = _each
    for name in ("lowerAscii", "upperAscii", "substring", "trim"):
        found[name] = _receiver_traversal
    for name in ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"):
        found[name] = _traversal()
    found |= {"jsonpatch.escapeKey": _traversal(result=True)}
    found |= {"url": _traversal(result=True), "ip.isCanonical": _traversal(2 * TRAVERSAL), "ip": _ip}
    found |= {"replace": _replace, "split": _split, "join": _join, "find": _find, "findAll": _find}
    found |= {"containsIP": _contains(False), "containsCIDR": _contains(True), "validate": _validate}
    found |= {"_==_": _equal, "list_slice": _slice, "lists_range": _range, "list_reverse": _reverse}
    found |= {"list_flatten": _flatten, "list_flatten_int": _flatten, "list_distinct": _distinct}
    found |= {"sort": _sort, "@sortByAssociatedKeys": _sort}
    found |= {"sets.contains": _sets(1), "sets.intersects": _sets(1), "sets.equivalent": _sets(2)}
    return found


# fmt: off
NOMINAL = (
    "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason",
    "error", "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback",
    "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger",
    "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major",
    "minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
)
# fmt: on
"""Functions that only look something up."""
CALLS = _table()


# --- the language itself ----------------------------------------------------------------------------------------------


def _prefix(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    return args[0].computed_or_unknown.scaled(TRAVERSAL), None


def _matches(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    if target is None:
        return None
    text, pattern = target.computed_or_unknown + ONE, args[0].computed_or_unknown
    return text.scaled(TRAVERSAL) * pattern.scaled(PATTERN), None


def _contains_text(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    return target.computed_or_unknown.scaled(TRAVERSAL) * args[0].computed_or_unknown.scaled(TRAVERSAL), None


def _to_bytes(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    size = args[0].computed_or_unknown
    return size.scaled(TRAVERSAL), Range(size.low, size.high * 4 & MOST)


def _to_string(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    size = args[0].computed_or_unknown
    return size.scaled(TRAVERSAL), Range(size.low // 4, size.high)


def _quote(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    size = args[0].computed_or_unknown
    return size.scaled(TRAVERSAL), Range(size.low + 2 & MOST, size.high * 2 + 2 & MOST)


def _format(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    return None if target is None else (target.computed_or_unknown.scaled(TRAVERSAL), None)


def _compare(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    smaller = min(args[0].computed_or_unknown.high, args[1].computed_or_unknown.high)
    return Range(1 if smaller else 0, smaller).scaled(TRAVERSAL), None


STANDARD: dict[str, Estimator] = {
    "starts_with_string": _prefix,
    "ends_with_string": _prefix,
    "in_list": lambda overload, target, args: (args[1].computed_or_unknown.scaled(1), None),
    "matches_string": _matches,
    "contains_string": _contains_text,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quote,
    "string_format": _format,
    "equals": _compare,
    "not_equals": _compare,
    **{
        f"{order}_{kind}": _compare
        for order in ("less", "greater", "less_equals", "greater_equals")
        for kind in ("string", "bytes")
    },
}
