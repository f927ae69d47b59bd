"""Operators and conversions of the language itself: numbers, comparisons, strings, bytes, sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from podfit.api.cel.library.functions import Library
from podfit.api.cel.library.times import shown_duration, shown_timestamp
from podfit.api.cel.values import (
    INT_MAX,
    INT_MIN,
    NANOS,
    UINT_MAX,
    Duration,
    Failed,
    NoOverload,
    Timestamp,
    TypeValue,
    Uint,
    compare,
    holds,
    joined,
    same,
    type_name,
)
from podfit.api.text.patterns import BadPattern, compile_pattern

LIBRARY = Library()
_add = LIBRARY.add
_PLAIN_DIGITS = 6
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.I)


def _int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise Failed("integer overflow")
    return value


def _uint(value: int) -> Uint:
    if not 0 <= value <= UINT_MAX:
        raise Failed("unsigned integer overflow")
    return Uint(value)


def _quotient(left: int, right: int) -> int:
    """The quotient of two integers, rounded towards zero."""
    if not right:
        raise Failed("division by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int:
    if not right:
        raise Failed("modulus by zero")
    if right == -1 and left == INT_MIN:
        raise Failed("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _ratio(left: float, right: float) -> float:
    if right:
        return left / right
    if left != left or not left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _arithmetic() -> None:
    for sign, word, run in (("+", "add", int.__add__), ("-", "subtract", int.__sub__), ("*", "multiply", int.__mul__)):
        function = f"_{sign}_"
        _add(function, f"{word}_double", "(double, double) double", getattr(float, run.__name__))
        _add(function, f"{word}_int64", "(int, int) int", _wrapped(run, _int))
        _add(function, f"{word}_uint64", "(uint, uint) uint", _wrapped(run, _uint))
    _add("_/_", "divide_double", "(double, double) double", _ratio)
    _add("_/_", "divide_int64", "(int, int) int", _wrapped(_quotient, _int))
    _add("_/_", "divide_uint64", "(uint, uint) uint", _wrapped(_quotient, _uint))
    _add("_%_", "modulo_int64", "(int, int) int", _remainder)
    _add("_%_", "modulo_uint64", "(uint, uint) uint", _wrapped(_remainder, _uint))
    _add("-_", "negate_double", "(double) double", lambda value: -value)
    _add("-_", "negate_int64", "(int) int", lambda value: _int(-value))
    _add("_+_", "add_bytes", "(bytes, bytes) bytes", lambda left, right: left + right)
    _add("_+_", "add_string", "(string, string) string", str.__add__)
    _add("_+_", "add_list", "(list(A), list(A)) list(A)", joined)
    _add("_+_", "add_duration_duration", "(duration, duration) duration", _plus(Duration))
    _add("_+_", "add_duration_timestamp", "(duration, timestamp) timestamp", _plus(Timestamp))
    _add("_+_", "add_timestamp_duration", "(timestamp, duration) timestamp", _plus(Timestamp))
    _add("_-_", "subtract_duration_duration", "(duration, duration) duration", _minus(Duration))
    _add("_-_", "subtract_timestamp_duration", "(timestamp, duration) timestamp", _minus(Timestamp))
    _add("_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) duration", _minus(Duration))


def _wrapped(run: Callable[[int, int], int], check: Callable[[int], int]) -> Callable[[int, int], int]:
    return lambda left, right: check(run(left, right))


def _plus(made: type[Duration] | type[Timestamp]) -> Callable[[Any, Any], Any]:
    return lambda left, right: made.checked(left.nanos + right.nanos)


def _minus(made: type[Duration] | type[Timestamp]) -> Callable[[Any, Any], Any]:
    return lambda left, right: made.checked(left.nanos - right.nanos)


def _relations() -> None:
    _add("_==_", "equals", "(A, A) bool", same)
    _add("_!=_", "not_equals", "(A, A) bool", lambda left, right: not same(left, right))
    kinds = {"bool": "bool", "int": "int64", "uint": "uint64", "double": "double", "string": "string", "bytes": "bytes"}
    kinds |= {"timestamp": "timestamp", "duration": "duration"}
    numbers = ("int", "uint", "double")
    for sign, word, holds_for in _ORDERS:
        run = _order(holds_for)
        for kind, shown in kinds.items():
            _add(f"_{sign}_", f"{word}_{shown}", f"({kind}, {kind}) bool", run)
        for kind in numbers:
            for other in numbers:
                if kind != other:
                    _add(f"_{sign}_", f"{word}_{kinds[kind]}_{kinds[other]}", f"({kind}, {other}) bool", run)


_ORDERS = (
    ("<", "less", (-1,)),
    ("<=", "less_equals", (-1, 0)),
    (">", "greater", (1,)),
    (">=", "greater_equals", (1, 0)),
)


def _order(holds_for: tuple[int, ...]) -> Callable[[Any, Any], bool]:
    return lambda left, right: compare(left, right) in holds_for


def _index_list(items: Any, at: int) -> Any:
    if type(at) is not int:
        if (type(at) is not float and not isinstance(at, int)) or at != int(at):
            raise NoOverload
        at = int(at)
    if not 0 <= at < len(items):
        raise Failed(f"index out of bounds: {at}")
    return items[at]


def _index_map(entries: dict[Any, Any], key: Any) -> Any:
    try:
        return entries[key]
    except KeyError:
        shown = key if not isinstance(key, bool) else str(key).lower()
        raise Failed(f"no such key: {shown}") from None


def _containers() -> None:
    _add("_[_]", "index_list", "(list(A), int) A", _index_list)
    _add("_[_]", "index_map", "(map(A, B), A) B", _index_map)
    _add("@in", "in_list", "(A, list(A)) bool", lambda item, items: holds(items, item))
    _add("@in", "in_map", "(A, map(A, B)) bool", lambda key, entries: key in entries)
    for kind in ("bytes", "list(A)", "map(A, B)", "string"):
        name = kind.partition("(")[0]
        _add("size", f"size_{name}", f"({kind}) int", len)
        _add("size", f"{name}_size", f"{kind}.() int", len)
    _add("cel.@mapInsert", "@mapInsert_map_key_value", "(map(K, V), K, V) map(K, V)", lambda *_: None)
    _add("cel.@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) map(K, V)", lambda *_: None)


def matches(text: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).search(text) is not None
    except BadPattern as error:
        raise Failed(str(error)) from None


def _texts() -> None:
    _add("contains", "contains_string", "string.(string) bool", lambda text, part: part in text)
    _add("endsWith", "ends_with_string", "string.(string) bool", str.endswith)
    _add("startsWith", "starts_with_string", "string.(string) bool", str.startswith)
    _add("matches", "matches", "(string, string) bool", matches)
    _add("matches", "matches_string", "string.(string) bool", matches)


# --- conversions -----------------------------------------------------------------------------------------------------


def _not_a(kind: str) -> Failed:
    return Failed(f"type conversion error from 'string' to '{kind}'")


def _text_to_int(text: str) -> int:
    if len(text) > 40 or not _INTEGER.fullmatch(text) or not INT_MIN <= (value := int(text)) <= INT_MAX:
        raise _not_a("int")
    return value


def _text_to_uint(text: str) -> Uint:
    if len(text) > 40 or not text.isascii() or not text.isdigit() or (value := int(text)) > UINT_MAX:
        raise _not_a("uint")
    return Uint(value)


def _text_to_double(text: str) -> float:
    value = float(text) if _DOUBLE.fullmatch(text) else None
    if value is None or (math.isinf(value) and "inf" not in text.lower()):
        raise _not_a("double")
    return value


def _text_to_bool(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise _not_a("bool")


def _double_to_int(value: float) -> int:
    if value != value or not -(2.0**63) < value < 2.0**63:
        raise Failed("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if value != value or not 0 <= value < 2.0**64:
        raise Failed("unsigned integer overflow")
    return Uint(int(value))


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Failed("invalid UTF-8 in bytes, cannot convert to string") from None


def shown_double(value: float) -> str:
    """A double as Go's strconv prints it: the fewest digits that round-trip, with an exponent from six digits on."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    power = int(exponent)
    if value and not -5 < power < _PLAIN_DIGITS:
        return f"{digits}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return f"{Decimal(repr(value)).normalize():f}"


def _conversions() -> None:
    _add("bool", "bool_to_bool", "(bool) bool", lambda value: value)
    _add("bool", "string_to_bool", "(string) bool", _text_to_bool)
    _add("bytes", "bytes_to_bytes", "(bytes) bytes", lambda value: value)
    _add("bytes", "string_to_bytes", "(string) bytes", str.encode)
    _add("double", "double_to_double", "(double) double", lambda value: value)
    _add("double", "int64_to_double", "(int) double", float)
    _add("double", "string_to_double", "(string) double", _text_to_double)
    _add("double", "uint64_to_double", "(uint) double", float)
    _add("int", "int64_to_int64", "(int) int", lambda value: value)
    _add("int", "double_to_int64", "(double) int", _double_to_int)
    _add("int", "duration_to_int64", "(duration) int", lambda value: value.nanos)
    _add("int", "string_to_int64", "(string) int", _text_to_int)
    _add("int", "timestamp_to_int64", "(timestamp) int", lambda value: value.nanos // NANOS)
    _add("int", "uint64_to_int64", "(uint) int", lambda value: _int(int(value)))
    _add("uint", "uint64_to_uint64", "(uint) uint", lambda value: value)
    _add("uint", "double_to_uint64", "(double) uint", _double_to_uint)
    _add("uint", "int64_to_uint64", "(int) uint", _uint)
    _add("uint", "string_to_uint64", "(string) uint", _text_to_uint)
    _add("string", "string_to_string", "(string) string", lambda value: value)
    _add("string", "bool_to_string", "(bool) string", lambda value: "true" if value else "false")
    _add("string", "bytes_to_string", "(bytes) string", _bytes_to_text)
    _add("string", "double_to_string", "(double) string", shown_double)
    _add("string", "duration_to_string", "(duration) string", shown_duration)
    _add("string", "int64_to_string", "(int) string", str)
    _add("string", "timestamp_to_string", "(timestamp) string", shown_timestamp)
    _add("string", "uint64_to_string", "(uint) string", lambda value: str(int(value)))
    _add("dyn", "to_dyn", "(A) dyn", lambda value: value)
    _add("type", "type", "(A) type(A)", lambda value: TypeValue(type_name(value)))


_arithmetic()
_relations()
_containers()
_texts()
_conversions()
