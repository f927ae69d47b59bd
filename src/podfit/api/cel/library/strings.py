"""Functions of strings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from podfit.api.cel.library.functions import Library
from podfit.api.cel.library.numbers import shown_double
from podfit.api.cel.library.times import shown_duration, shown_timestamp
from podfit.api.cel.values import LISTS, Failed, TypeValue, type_name
from podfit.api.text.patterns import BadPattern, compile_pattern

LIBRARY = Library()
_add = LIBRARY.add
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_CLAUSE = re.compile(r"%(?:(%)|(?:\.([0-9]{1,3}))?(.?))", re.DOTALL)
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_QUOTED = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}
)
MOST_FORMATTED = 10_000_000
"""Characters that formatting may produce: only the pattern counts towards its cost."""


def _outside(at: int) -> Failed:
    return Failed(f"index out of range: {at}")


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise _outside(at)
    return text[at : at + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _outside(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str, end: int | None = None) -> int:
    if not part:
        return len(text) if end is None else end
    if end is None:
        return text.rfind(part)
    if end < 0:
        raise _outside(end)
    return -1 if end >= len(text) else text.rfind(part, 0, end + len(part))


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    count = text.count(old) if old else len(text) + 1
    count = count if most < 0 else min(count, most)
    if len(text) + count * len(new) > MOST_FORMATTED:
        raise Failed("the result of replace is too long")
    return text.replace(old, new, most)


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not by:
        return list(text) if most < 0 else [*text[: most - 1], text[most - 1 :]] if len(text) > most else list(text)
    return text.split(by) if most < 0 else text.split(by, most - 1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise Failed(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _outside(start)
    if end is not None and end > len(text):
        raise _outside(end)
    return text[start:end]


def _join(items: Any, by: str = "") -> str:
    texts = list(items)
    if any(not isinstance(text, str) for text in texts):
        raise Failed("type conversion error from 'list' to '[]string'")
    return by.join(texts)


# --- format ----------------------------------------------------------------------------------------------------------


def _quoted(value: Any, text: str) -> str:
    if isinstance(value, (str, bytes)):
        return ("b" if isinstance(value, bytes) else "") + '"' + text.translate(_QUOTED) + '"'
    return text


def _inner(value: Any) -> str:
    """A value as an element of a list or map, where it is printed like a literal."""
    name = type_name(value)
    if name == "double":
        return shown_double(value) if math.isnan(value) or math.isinf(value) else f"{value:.6f}"
    if name == "google.protobuf.Timestamp":
        return f'timestamp("{shown_timestamp(value)}")'
    if name == "google.protobuf.Duration":
        return f'duration("{shown_duration(value)}")'
    return _quoted(value, _text(value))


def _text(value: Any) -> str:
    name = type_name(value)
    plain = _PLAIN.get(name)
    if plain is not None:
        return plain(value)
    if isinstance(value, LISTS):
        return "[" + ", ".join([_inner(item) for item in value]) + "]"
    if name == "map":
        pairs = sorted((_inner(key), _inner(item)) for key, item in value.items())
        return "{" + ", ".join([f"{key}:{item}" for key, item in pairs]) + "}"
    raise Failed(f"error during formatting: {STRING_CLAUSE}, was given {name}")


_PLAIN: dict[str, Callable[[Any], str]] = {
    "string": lambda value: value,
    "bool": lambda value: "true" if value else "false",
    "int": str,
    "uint": lambda value: str(int(value)),
    "double": shown_double,
    "bytes": lambda value: value.decode("utf-8", "replace"),
    "null_type": lambda value: "null",
    "type": lambda value: value.name if isinstance(value, TypeValue) else "",
    "google.protobuf.Timestamp": shown_timestamp,
    "google.protobuf.Duration": shown_duration,
}


def _scientific(value: float) -> str:
    """Scientific notation, always with six digits: a precision is interpreted as a width."""
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    return f"{mantissa}×10{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}"


def _hex(value: Any, upper: bool) -> str:
    if isinstance(value, (str, bytes)):
        digits = (value.encode() if isinstance(value, str) else value).hex()
    else:
        digits = f"{value:x}"
    return digits.upper() if upper else digits


CLAUSES: dict[str, tuple[tuple[str, ...], str]] = {
    "d": (("int", "uint"), "decimal clause can only be used on integers"),
    "f": (("double", "int", "uint"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "int", "uint"), "scientific clause can only be used on doubles"),
    "b": (("int", "uint", "bool"), "only integers and bools can be formatted as binary"),
    "x": (("int", "uint", "string", "bytes"), "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (("int", "uint"), "octal clause can only be used on integers"),
}
CLAUSES["X"] = CLAUSES["x"]
STRING_CLAUSE = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)


def _clause(letter: str, precision: int, value: Any) -> str:
    if letter == "s":
        return _text(value)
    allowed, why = CLAUSES[letter]
    name = type_name(value)
    if name not in allowed:
        raise Failed(f"error during formatting: {why}, was given {name}")
    if letter in "fe":
        number = float(value)
        if math.isnan(number) or math.isinf(number):
            return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
        return f"{number:,.{precision}f}" if letter == "f" else _scientific(number)
    if letter in "xX":
        return _hex(value, letter == "X")
    return format(int(value), {"d": "d", "b": "b", "o": "o"}[letter])


def format_clauses(text: str) -> list[tuple[str, int]]:
    """The verbs of a format, with the position of each. Raises Failed."""
    found = []
    for clause in _CLAUSE.finditer(text):
        if clause[1]:
            continue
        if not clause[3]:
            raise Failed("unexpected end of string")
        if clause[3] not in CLAUSES and clause[3] != "s":
            raise Failed(f'could not parse formatting clause: unrecognized formatting clause "{clause[3]}"')
        found.append((clause[3], clause.start()))
    return found


def _format(text: str, values: Any) -> str:
    format_clauses(text)
    at, made, size, left = 0, [], 0, iter(values)
    for number, clause in enumerate(_CLAUSE.finditer(text)):
        piece = "%"
        if not clause[1]:
            value = next(left, left)
            if value is left:
                raise Failed(f"index {number} out of range")
            piece = _clause(clause[3], int(clause[2] or 6), value)
        made += [text[at : clause.start()], piece]
        size += len(piece)
        if size > MOST_FORMATTED:
            raise Failed("the result of format is too long")
        at = clause.end()
    return "".join([*made, text[at:]])


# --- patterns --------------------------------------------------------------------------------------------------------


def _find(text: str, pattern: str) -> str:
    try:
        found = compile_pattern(pattern).search(text)
    except BadPattern as error:
        raise Failed(f"Illegal regex: {error}") from None
    return found[0] if found else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found: list[str] = []
    if most == 0:
        return found
    try:
        for match in compile_pattern(pattern).finditer(text):
            found.append(match[0])
            if len(found) == most:
                break
    except BadPattern as error:
        raise Failed(f"Illegal regex: {error}") from None
    return found


_add("charAt", "string_char_at_int", "string.(int) string", _char_at)
_add("indexOf", "string_index_of_string", "string.(string) int", _index_of)
_add("indexOf", "string_index_of_string_int", "string.(string, int) int", _index_of)
_add("lastIndexOf", "string_last_index_of_string", "string.(string) int", _last_index_of)
_add("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) int", _last_index_of)
_add("lowerAscii", "string_lower_ascii", "string.() string", lambda text: text.translate(_LOWER))
_add("upperAscii", "string_upper_ascii", "string.() string", lambda text: text.translate(_UPPER))
_add("replace", "string_replace_string_string", "string.(string, string) string", _replace)
_add("replace", "string_replace_string_string_int", "string.(string, string, int) string", _replace)
_add("split", "string_split_string", "string.(string) list(string)", _split)
_add("split", "string_split_string_int", "string.(string, int) list(string)", _split)
_add("substring", "string_substring_int", "string.(int) string", _substring)
_add("substring", "string_substring_int_int", "string.(int, int) string", _substring)
_add("trim", "string_trim", "string.() string", str.strip)
_add("format", "string_format", "string.(list(dyn)) string", _format)
_add("strings.quote", "strings_quote", "(string) string", lambda text: '"' + text.translate(_QUOTED) + '"')
_add("join", "list_join", "list(string).() string", _join)
_add("join", "list_join_string", "list(string).(string) string", _join)
_add("find", "string_find_string", "string.(string) string", _find)
_add("findAll", "string_find_all_string", "string.(string) list(string)", _find_all)
_add("findAll", "string_find_all_string_int", "string.(string, int) list(string)", _find_all)
