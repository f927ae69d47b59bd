"""Splits the text of an expression into tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from podfit.api.cel.parsing.syntax import Problems
from podfit.api.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_RESERVED = "as break const continue else for function if import let loop package namespace return var void while"
RESERVED = frozenset(_RESERVED.split(" "))
WORDS = {"true": True, "false": False, "null": None}
_TOKEN = re.compile(
    r"""
    (?P<space>[\t\ \r\n\f]+|//[^\n]*)
  | (?P<string>(?:[rR]|[bB][rR]?|[rR][bB])?(?:'{3}|"{3}|['"]))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%!<>?:.,()\[\]{}])
""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:[abfnrtv\"'`?\\]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})", re.DOTALL
)
_SINGLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Token(NamedTuple):
    kind: str
    """`word`, `literal`, `sign` or `end`."""
    text: str
    at: int
    value: object = None


def tokens_of(text: str, problems: Problems) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            problems.add(at, f"Syntax error: token recognition error at: '{text[at]}'")
            at += 1
            continue
        kind = str(found.lastgroup)
        if kind == "string":
            at = _string(text, at, found[0], tokens, problems)
            continue
        if kind in ("word", "sign"):
            tokens.append(Token(kind, found[0], at))
        elif kind != "space":
            tokens.append(Token("literal", found[0], at, _number(kind, found[0], at, problems)))
        at = found.end()
    tokens.append(Token("end", "<EOF>", len(text)))
    return tokens


def _number(kind: str, text: str, at: int, problems: Problems) -> object:
    if kind == "float":
        return float(text)
    digits = text[:-1] if kind == "uint" else text
    # Numbers with more digits than any integer are rejected without conversion.
    value = UINT_MAX + 1 if len(digits) > 40 else int(digits, 16) if digits.startswith("0x") else int(digits)
    if kind == "uint":
        if value > UINT_MAX:
            problems.add(at, "invalid uint literal")
        return Uint(value)
    # The sign is a token of its own: the parser rejects numbers that are too large for a positive one.
    if value > -INT_MIN:
        problems.add(at, "invalid int literal")
        return INT_MAX
    return value


def _string(text: str, at: int, opening: str, tokens: list[Token], problems: Problems) -> int:
    """Reads a string or bytes literal and returns its end position."""
    prefix = opening.rstrip("'\"").lower()
    quote = opening[len(prefix) :]
    raw, start = "r" in prefix, at + len(opening)
    end = _end_of(text, start, quote, raw)
    if end < 0:
        # An empty string may look like the start of a longer one that is not terminated.
        if len(quote) == 3:
            tokens.append(Token("literal", text[at : at + len(prefix) + 2], at, b"" if "b" in prefix else ""))
            return at + len(prefix) + 2
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        problems.add(at, f"Syntax error: token recognition error at: '{text[at:stop]}'")
        return stop
    body, whole = text[start:end], text[at : end + len(quote)]
    value: object = body
    try:
        if "b" in prefix:
            value = body.encode() if raw else _bytes(body)
        elif not raw:
            value = _unescaped(body)
    except ValueError as error:
        problems.add(at, str(error))
    tokens.append(Token("literal", whole, at, value))
    return end + len(quote)


def _end_of(text: str, at: int, quote: str, raw: bool) -> int:
    while at < len(text):
        if text.startswith(quote, at):
            return at
        if len(quote) == 1 and text[at] in "\r\n":
            return -1
        at += 2 if text[at] == "\\" and not raw else 1
    return -1


def _unescaped(body: str) -> str:
    if "\\" not in body:
        return body
    made, at = [], 0
    while at < len(body):
        if body[at] != "\\":
            stop = body.find("\\", at)
            stop = len(body) if stop < 0 else stop
            made.append(body[at:stop])
            at = stop
            continue
        found = _ESCAPE.match(body, at)
        if found is None:
            raise ValueError("unable to unescape string")
        made.append(_character(found[0][1:]))
        at = found.end()
    return "".join(made)


def _character(escape: str) -> str:
    if escape[0] in "xXuU" and len(escape) > 1:
        code = int(escape[1:], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError("invalid unicode code point")
        return chr(code)
    if escape.isdigit():
        return chr(int(escape, 8))
    return _SINGLE.get(escape, escape)


def _bytes(body: str) -> bytes:
    made, at = bytearray(), 0
    while at < len(body):
        if body[at] != "\\":
            made += body[at].encode()
            at += 1
            continue
        found = _ESCAPE.match(body, at)
        if found is None or found[0][1] in "uU":
            raise ValueError("unable to unescape string")
        made.append(ord(_character(found[0][1:])))
        at = found.end()
    return bytes(made)
