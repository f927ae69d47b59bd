"""Go's error messages for invalid JSON. Used only after a fast parser has rejected the text.

`syntax_error(raw)` walks the text as Go's scanner does and names the first invalid character; the parsers themselves
(`parse`, `parse_exact`) are msgspec's and the standard library's.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import msgspec

from podfit.api.encoded import Encoded
from podfit.api.text.depth import MAX_DEPTH, too_deep

END = "unexpected end of JSON input"
TOO_DEEP = "exceeded max depth"
_SPACE = b" \t\r\n"
_HEX = b"0123456789abcdefABCDEF"
_SPACES, _DIGITS, _PLAIN = re.compile(rb"[ \t\r\n]*"), re.compile(rb"[0-9]*"), re.compile(rb'[^"\\\x00-\x1f]*')


class GoSyntaxError(ValueError):
    """The text is not valid JSON; the message is Go's."""


class Literal(float):
    """A number that is not a plain integer, with its source text."""

    text: str

    @staticmethod
    def of(text: str) -> Literal:
        made = Literal(text)
        made.text = text
        return made


class Pairs(dict[str, Any]):
    """An object that records its duplicate keys."""

    twice: tuple[str, ...] = ()
    after: tuple[int, ...] = ()
    """For each of them, how many other keys came before the duplicate."""

    @staticmethod
    def of(pairs: list[tuple[str, Any]]) -> Pairs:
        made = Pairs(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            repeated = [(key, len(seen)) for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
            made.twice, made.after = tuple(key for key, _ in repeated), tuple(at for _, at in repeated)
        return made


def _finite(text: str) -> Literal:
    made = Literal.of(text)
    if math.isinf(made):
        raise ValueError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return made


def _integer(text: str) -> int | Literal:
    """An integer, or a float beyond 64 bits, as in Go."""
    return int(text) if len(text) <= 20 else _finite(text)


_EXACT = json.JSONDecoder(
    object_pairs_hook=Pairs.of,
    parse_float=Literal.of,
    parse_int=lambda text: int(text) if len(text) <= 20 else Literal.of(text),
    parse_constant=lambda _: _refuse(),
)
_FINITE = json.JSONDecoder(
    object_pairs_hook=Pairs.of, parse_float=_finite, parse_int=_integer, parse_constant=lambda _: _refuse()
)
_ESCAPE = re.compile(r"\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)")


def _without_half_pair(escape: re.Match[str]) -> str:
    """Replaces half of a surrogate pair, which is not a character, by U+FFFD like Go."""
    return r"\ufffd" if len(escape[1]) == 5 and escape[1][1] in "dD" else escape[0]


def _refuse() -> NoReturn:
    raise ValueError("no JSON constant")


def parse(raw: bytes, *, typed: bool = False) -> Any:
    """Parses JSON fast, without detecting duplicate keys. Numbers beyond float64 are rejected here, unless typed
    decoding (`typed`) will report a better error for them."""
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise GoSyntaxError(TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return parse_exact(raw, typed=typed)
    if too_deep(raw, value):
        raise GoSyntaxError(TOO_DEEP)
    return value


def parse_exact(raw: bytes, *, typed: bool = True) -> Any:
    """Parses JSON keeping duplicate keys (`Pairs.twice`) and the text of fractions (`Literal`)."""
    text = _ESCAPE.sub(_without_half_pair, raw.decode("utf-8", "replace"))
    try:
        value = (_EXACT if typed else _FINITE).decode(text)
    except RecursionError:
        raise GoSyntaxError(TOO_DEEP) from None
    except ValueError as error:
        raise GoSyntaxError(_worded(error, raw)) from None
    if too_deep(raw, value):
        raise GoSyntaxError(TOO_DEEP)
    return value


def _worded(error: ValueError, raw: bytes) -> str:
    """Go's error. For a long text it is derived from the position where the parser stopped: walking it again would take
    seconds.
    """
    if len(raw) <= _WALKED or not isinstance(error, json.JSONDecodeError):
        return syntax_error(raw) or str(error)
    if error.pos >= len(error.doc) or error.msg.startswith("Unterminated"):
        return END
    where = next((words for start, words in _STOPPED if error.msg.startswith(start)), "looking for beginning of value")
    return _unexpected(ord(error.doc[error.pos]), where)


_WALKED = 64 * 1024
_STOPPED = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after array element"),
    ("Invalid control character", "in string literal"),
    ("Invalid \\", "in string escape code"),
    ("Extra data", "after top-level value"),
)


_KEYS = re.compile(rb'"\s*:')
_SPACED = (b" :", b"\n:", b"\t:", b"\r:")


def may_hold_duplicates(raw: bytes, value: Any) -> bool:
    """Whether the text has more `"key":` occurrences than the parsed value has keys. May return false positives, never
    false negatives.
    """
    if type(raw) is Encoded or _is_written(raw, value):
        return False
    if any(space in raw for space in _SPACED):
        return len(_KEYS.findall(raw)) != _count_keys(value)
    places = raw.count(b'":')
    if b"\\\\" not in raw:
        # Texts that quote JSON, such as messages of Events. A backslash after a backslash could end a key.
        places -= raw.count(b'\\":')
    return places != _count_keys(value)


def _is_written(raw: bytes, value: Any) -> bool:
    """Whether the text has the form written by Go clients: then each key occurs once."""
    try:
        return msgspec.json.encode(value) == raw.rstrip(b"\n")
    except TypeError:
        return False


def _count_keys(value: Any) -> int:
    if value.__class__ is dict:
        total = len(value)
        for item in value.values():
            kind = type(item)
            if kind is dict or kind is list:
                total += _count_keys(item)
        return total
    if value.__class__ is list:
        total = 0
        for item in value:
            kind = type(item)
            if kind is dict or kind is list:
                total += _count_keys(item)
        return total
    return 0


def quoted(char: int) -> str:
    """A character as shown by Go's scanner."""
    if char == ord("'"):
        return "'\\''"
    if char == ord('"'):
        return "'\"'"
    if char in (7, 8, 9, 10, 11, 12, 13, 92):
        return "'" + {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 92: "\\\\"}[char] + "'"
    if char < 0x20 or char == 0x7F:
        return f"'\\x{char:02x}'"
    if 0x80 <= char < 0xA0 or char == 0xAD:
        return f"'\\u{char:04x}'"
    return f"'{chr(char)}'"


def syntax_error(raw: bytes) -> str | None:
    """Go's message for the first error in the text, or None if it is valid JSON."""
    try:
        at = _value(raw, _skip(raw, 0))
        at = _skip(raw, at)
        if at < len(raw):
            raise _Bad(_unexpected(raw[at], "after top-level value"))
    except _Bad as bad:
        return bad.message
    except IndexError:
        return END
    return None


class _Bad(Exception):
    def __init__(self, message: str) -> None:
        self.message = message


def _unexpected(char: int, where: str) -> str:
    return f"invalid character {quoted(char)} {where}"


def _skip(raw: bytes, at: int) -> int:
    return at if at >= len(raw) or raw[at] not in _SPACE else _end(_SPACES, raw, at)


def _end(pattern: re.Pattern[bytes], raw: bytes, at: int) -> int:
    found = pattern.match(raw, at)
    assert found is not None
    return found.end()


def _value(raw: bytes, at: int) -> int:
    """Iterates with an explicit stack: nesting as deep as Go allows must not exhaust Python's."""
    stack: list[int] = []
    while True:
        at = _skip(raw, at)
        char = raw[at]
        if char in b"{[":
            stack.append(char)
            if len(stack) > MAX_DEPTH:
                raise _Bad(TOO_DEEP)
            at = _skip(raw, at + 1)
            if char == ord("{"):
                if raw[at] != ord("}"):
                    at = _key(raw, at)
                    continue
            elif raw[at] != ord("]"):
                continue
        else:
            at = _scalar(raw, at)
        at = _close(raw, at, stack)
        if not stack:
            return at


def _close(raw: bytes, at: int, stack: list[int]) -> int:
    """After a value (or at the end of an empty container): closes containers until another value is expected."""
    while stack:
        at = _skip(raw, at)
        char, inside = raw[at], stack[-1]
        if (inside, char) in ((ord("{"), ord("}")), (ord("["), ord("]"))):
            stack.pop()
            at += 1
        elif char == ord(","):
            at = _skip(raw, at + 1)
            return _key(raw, at) if inside == ord("{") else at
        else:
            where = "after object key:value pair" if inside == ord("{") else "after array element"
            raise _Bad(_unexpected(char, where))
    return at


def _key(raw: bytes, at: int) -> int:
    if raw[at] != ord('"'):
        raise _Bad(_unexpected(raw[at], "looking for beginning of object key string"))
    at = _skip(raw, _string(raw, at))
    if raw[at] != ord(":"):
        raise _Bad(_unexpected(raw[at], "after object key"))
    return at + 1


def _scalar(raw: bytes, at: int) -> int:
    char = raw[at]
    if char == ord('"'):
        return _string(raw, at)
    if char == ord("-") or char in b"0123456789":
        return _number(raw, at)
    for word in (b"true", b"false", b"null"):
        if char == word[0]:
            for offset in range(1, len(word)):
                if raw[at + offset] != word[offset]:
                    expecting = f"in literal {word.decode()} (expecting '{chr(word[offset])}')"
                    raise _Bad(_unexpected(raw[at + offset], expecting))
            return at + len(word)
    raise _Bad(_unexpected(char, "looking for beginning of value"))


def _string(raw: bytes, at: int) -> int:
    at += 1
    while raw[at := _end(_PLAIN, raw, at)] != ord('"'):
        if raw[at] == ord("\\"):
            at += 1
            if raw[at] == ord("u"):
                for _ in range(4):
                    at += 1
                    if raw[at] not in _HEX:
                        raise _Bad(_unexpected(raw[at], "in \\u hexadecimal character escape"))
            elif raw[at] not in b'"\\/bfnrt':
                raise _Bad(_unexpected(raw[at], "in string escape code"))
        elif raw[at] < 0x20:
            raise _Bad(_unexpected(raw[at], "in string literal"))
        at += 1
    return at + 1


def _number(raw: bytes, at: int) -> int:
    if raw[at] == ord("-"):
        at += 1
        if raw[at] not in b"0123456789":
            raise _Bad(_unexpected(raw[at], "in numeric literal"))
    at = at + 1 if raw[at] == ord("0") else _digits(raw, at)
    if at < len(raw) and raw[at] == ord("."):
        at += 1
        if raw[at] not in b"0123456789":
            raise _Bad(_unexpected(raw[at], "after decimal point in numeric literal"))
        at = _digits(raw, at)
    if at < len(raw) and raw[at] in b"eE":
        at += 1
        if raw[at] in b"+-":
            at += 1
        if raw[at] not in b"0123456789":
            raise _Bad(_unexpected(raw[at], "in exponent of numeric literal"))
        at = _digits(raw, at)
    return at


def _digits(raw: bytes, at: int) -> int:
    return _end(_DIGITS, raw, at)
