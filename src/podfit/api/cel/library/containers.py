"""Functions of lists, sets and optional values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from podfit.api.cel.library.functions import Library
from podfit.api.cel.library.numbers import LIBRARY as NUMBERS
from podfit.api.cel.values import (
    LISTS,
    NONE,
    Duration,
    Failed,
    Maybe,
    Opaque,
    Timestamp,
    Uint,
    compare,
    holds,
    same,
    type_name,
)

LIBRARY = Library()
_add = LIBRARY.add
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_MOST_RANGE = 10_000_000
_ZEROS: dict[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_HASHABLE = (str, bytes, int, bool, Timestamp, Duration)


def _is_sorted(items: Any) -> bool:
    before: Any = None
    for at, item in enumerate(items):
        if at and compare(before, item) > 0:
            return False
        before = item
    return True


def _sum(zero: Any, add: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def total(items: Any) -> Any:
        found = zero
        for item in items:
            found = add(found, item)
        return found

    return total


_ADDING = {"int": "add_int64", "uint": "add_uint64", "double": "add_double", "duration": "add_duration_duration"}


def _checked_add(kind: str) -> Callable[[Any, Any], Any]:
    return next(overload.run for overload in NUMBERS.functions["_+_"] if overload.id == _ADDING[kind])


def _extreme(word: str, sign: int) -> Callable[[Any], Any]:
    def chosen(items: Any) -> Any:
        best: Any = None
        for at, item in enumerate(items):
            if not at or compare(item, best) == sign:
                best = item
        if not len(items):
            raise Failed(f"{word} called on empty list")
        return best

    return chosen


def _index_of(items: Any, wanted: Any) -> int:
    for at, item in enumerate(items):
        if same(item, wanted):
            return at
    return -1


def _last_index_of(items: Any, wanted: Any) -> int:
    found = -1
    for at, item in enumerate(items):
        if same(item, wanted):
            found = at
    return found


def _slice(items: Any, start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise Failed(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise Failed(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise Failed(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items)[start:end]


def _flatten(items: Any, depth: int = 1) -> list[Any]:
    if depth < 0:
        raise Failed("level must be non-negative")
    flat: list[Any] = []
    left: list[tuple[Any, int]] = [(items, depth + 1)]
    while left:
        value, levels = left.pop()
        if levels and isinstance(value, LISTS):
            left += [(item, levels - 1) for item in reversed(list(value))]
        else:
            flat.append(value)
    return flat


def _sort_by(items: Any, keys: Any) -> list[Any]:
    names = {type_name(key) for key in keys}
    if len(names) > 1:
        raise Failed("list elements must have the same type")
    if names and not names <= _SORTABLE:
        raise Failed("list elements must be comparable")
    by_key = cmp_to_key(compare)
    pairs = list(zip(keys, items, strict=True))
    pairs.sort(key=lambda pair: by_key(pair[0]))
    return [item for _, item in pairs]


_SORTABLE = {"int", "uint", "double", "bool", "string", "bytes"} | {
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
}


def _range(count: int) -> Any:
    if count > _MOST_RANGE:
        raise Failed("the range is too long")
    return list(range(count))


def _distinct(items: Any) -> list[Any]:
    known: set[Any] = set()
    rest: list[Any] = []
    found = []
    for item in items:
        if type(item) in _HASHABLE:
            key = (type(item) is bool, item)
            if key in known:
                continue
            known.add(key)
        elif holds(rest, item):
            continue
        else:
            rest.append(item)
        found.append(item)
    return found


def _contains(whole: Any, part: Any) -> bool:
    scalars = {(type(item) is bool, item) for item in whole if type(item) in _HASHABLE}
    for item in part:
        if type(item) in _HASHABLE:
            if (type(item) is bool, item) in scalars:
                continue
            if not any(type(other) not in _HASHABLE for other in whole):
                return False
        if not holds(whole, item):
            return False
    return True


def _intersects(left: Any, right: Any) -> bool:
    scalars = {(type(item) is bool, item) for item in right if type(item) in _HASHABLE}
    for item in left:
        if type(item) in _HASHABLE and (type(item) is bool, item) in scalars:
            return True
        if type(item) not in _HASHABLE and holds(right, item):
            return True
    return False


def _is_zero(value: Any) -> bool:
    if isinstance(value, (Timestamp, Duration)):
        return not value.nanos if isinstance(value, Duration) else False
    if isinstance(value, (Maybe, Opaque)):
        return isinstance(value, Maybe) and not value.present
    return not value


def _unwrapped(items: Any) -> list[Any]:
    return [item.value for item in items if item.present]


def _optional_index(value: Any, key: Any) -> Maybe:
    if isinstance(value, Maybe):
        if not value.present:
            return NONE
        value = value.value
    if isinstance(value, dict):
        return Maybe(value[key]) if key in value else NONE
    return Maybe(value[key]) if type(key) is int and 0 <= key < len(value) else NONE


def _index_optional(value: Maybe, key: Any) -> Maybe:
    return _optional_index(value, key)


def _lists() -> None:
    for kind in _COMPARABLE:
        items = f"list({kind})"
        _add("isSorted", f"list_{kind}_is_sorted_bool", f"{items}.() bool", _is_sorted)
        _add("max", f"list_{kind}_max_{kind}", f"{items}.() {kind}", _extreme("max", 1))
        _add("min", f"list_{kind}_min_{kind}", f"{items}.() {kind}", _extreme("min", -1))
        _add("sort", f"list_{kind}_sort", f"{items}.() {items}", lambda items: _sort_by(items, items))
        name = "@sortByAssociatedKeys"
        _add(name, f"list_{kind}_sortByAssociatedKeys", f"list(T).({items}) list(T)", _sort_by)
    for kind, zero in _ZEROS.items():
        _add("sum", f"list_{kind}_sum_{kind}", f"list({kind}).() {kind}", _sum(zero, _checked_add(kind)))
    _add("indexOf", "list_a_index_of_int", "list(A).(A) int", _index_of)
    _add("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) int", _last_index_of)
    _add("slice", "list_slice", "list(T).(int, int) list(T)", _slice)
    _add("flatten", "list_flatten", "list(list(T)).() list(T)", _flatten)
    _add("flatten", "list_flatten_int", "list(dyn).(int) list(dyn)", _flatten)
    _add("lists.range", "lists_range", "(int) list(int)", _range)
    _add("reverse", "list_reverse", "list(T).() list(T)", lambda items: list(items)[::-1])
    _add("distinct", "list_distinct", "list(T).() list(T)", _distinct)
    _add("sets.contains", "list_sets_contains_list", "(list(T), list(T)) bool", _contains)
    _add("sets.intersects", "list_sets_intersects_list", "(list(T), list(T)) bool", _intersects)
    both = lambda left, right: _contains(left, right) and _contains(right, left)  # noqa: E731
    _add("sets.equivalent", "list_sets_equivalent_list", "(list(T), list(T)) bool", both)


def _optionals() -> None:
    nothing = lambda: NONE  # noqa: E731
    _add("optional.of", "optional_of", "(V) optional(V)", Maybe)
    found = lambda value: NONE if _is_zero(value) else Maybe(value)  # noqa: E731
    _add("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) optional(V)", found)
    _add("optional.none", "optional_none", "() optional(V)", nothing)
    _add("value", "optional_value", "optional(V).() V", Maybe.get)
    _add("hasValue", "optional_hasValue", "optional(V).() bool", lambda value: value.present)
    _add("or", "optional_or_optional", "optional(V).(optional(V)) optional(V)", lambda one, other: one)
    _add("orValue", "optional_orValue_value", "optional(V).(V) V", lambda one, other: one)
    _add("_[?_]", "list_optindex_optional_int", "(list(V), int) optional(V)", _optional_index)
    _add("_[?_]", "optional_list_optindex_optional_int", "(optional(list(V)), int) optional(V)", _optional_index)
    _add("_[?_]", "map_optindex_optional_value", "(map(K, V), K) optional(V)", _optional_index)
    _add("_[?_]", "optional_map_optindex_optional_value", "(optional(map(K, V)), K) optional(V)", _optional_index)
    _add("_[_]", "optional_list_index_int", "(optional(list(V)), int) optional(V)", _index_optional)
    _add("_[_]", "optional_map_index_value", "(optional(map(K, V)), K) optional(V)", _index_optional)
    _add("first", "list_first", "list(V).() optional(V)", lambda items: Maybe(items[0]) if len(items) else NONE)
    last = lambda items: Maybe(items[len(items) - 1]) if len(items) else NONE  # noqa: E731
    _add("last", "list_last", "list(V).() optional(V)", last)
    _add("optional.unwrap", "optional_unwrap", "(list(optional(V))) list(V)", _unwrapped)
    _add("unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() list(V)", _unwrapped)


_lists()
_optionals()
