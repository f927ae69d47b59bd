"""YAML bodies, decoded as in Kubernetes: YAML 1.1 scalars become JSON values, anchors work, tags do not.

Errors are worded like those of Go's YAML parser as far as libyaml's shared ancestry allows.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import yaml

from podfit.api.schema.decoding.yaml_nodes import TAG, TOO_DEEP, Builder, YamlError, compose
from podfit.api.text.depth import too_deep
from podfit.api.text.gojson import may_hold_duplicates

_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_FAST):  # type: ignore[misc]
    """A YAML loader that reads dates as strings, because JSON has no dates."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))


def _number(loader: Any, node: Any) -> int | float | str:
    """A number as Go reads it: 64 bits or a float, never base 60; a string if it is too large for a float."""
    written = loader.construct_scalar(node)
    text = written.replace("_", "")
    if _NOT_FINITE.fullmatch(text):
        word = "NaN" if "a" in text.lower() else "-Inf" if text[0] == "-" else "+Inf"
        raise YamlError(f"json: unsupported value: {word}")
    digits = text.lstrip("+-")
    try:
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        value = (-1 if text[:1] == "-" else 1) * int(digits, 8 if octal else 0)
        if -(1 << 63) <= value < 1 << 64:
            return value
    except ValueError:
        pass
    if not _FLOAT.fullmatch(text):
        raise YamlError(f"yaml: cannot decode !!str `{written}` as a {node.tag.replace(TAG, '!!')}")
    number = float(text)
    if math.isinf(number):
        return str(written)
    # On its way through JSON, an integral float loses its decimal point.
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _boolean(loader: Any, node: Any) -> bool:
    text = loader.construct_scalar(node)
    if not _BOOLEAN.fullmatch(text):
        raise YamlError(f"yaml: cannot decode !!str `{text}` as a !!bool")
    return text.lower() in ("y", "yes", "true", "on")


def _binary(loader: Any, node: Any) -> str:
    return bytes(loader.construct_yaml_binary(node)).decode("utf-8", "replace")


_BOOLEAN = re.compile("y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON|n|N|no|No|NO|false|False|FALSE|off|Off|OFF")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(r"[-+]?(0[bB][01_]+|0[oO][0-7_]+|0[xX][0-9a-fA-F_]+|[0-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rows if tag.removeprefix(TAG) not in ("int", "float", "bool")]
    for first, rows in _FAST.yaml_implicit_resolvers.items()
}
for _name, _pattern, _first, _read in (
    ("bool", _BOOLEAN, "yYnNtTfFoO", _boolean),
    ("int", _INTEGER, "-+0123456789", _number),
    ("float", _FLOAT, "-+.0123456789", _number),
    ("float", _NOT_FINITE, "-+.", _number),
):
    _Loader.add_implicit_resolver(TAG + _name, re.compile(f"(?:{_pattern.pattern})$"), list(_first))
    _Loader.add_constructor(TAG + _name, _read)
_Loader.add_constructor(TAG + "binary", _binary)


def parse_yaml(raw: bytes) -> tuple[Any, list[str]]:
    """The first document as JSON, and warnings about duplicate keys. JSON, being YAML, is parsed by the fast parser."""
    if raw[:1] == b"{":
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        if value is not None and not too_deep(raw, value) and not may_hold_duplicates(raw, value):
            return value, []
    loader = _Loader(raw.decode("utf-8", "replace"))
    builder = Builder(loader)
    try:
        root = compose(loader)
        value = None if root is None else builder.build(root)
    except yaml.YAMLError as error:
        raise YamlError(_worded(error)) from None
    except RecursionError:
        raise YamlError(f"yaml: {TOO_DEEP}") from None
    finally:
        loader.dispose()
    lines = [f'  line {line}: key "{key}" already set in map' for line, key in builder.twice]
    return value, ["yaml: unmarshal errors:\n" + "\n".join(lines)] if lines else []


_PLAIN_WORDS = (
    (re.compile(r"expected ',' or '\]', but got .*"), "did not find expected ',' or ']'"),
    (re.compile(r"expected ',' or '\}', but got .*"), "did not find expected ',' or '}'"),
    (re.compile(r"expected <block end>, but found .*"), "did not find expected key"),
    (re.compile(r"found character .* that cannot start any token"), "found character that cannot start any token"),
)
"""Errors that Python's own parser words differently from libyaml, whose wording Go's parser shares."""


def _worded(error: yaml.YAMLError) -> str:
    problem = str(getattr(error, "problem", None) or error)
    for pattern, words in _PLAIN_WORDS:
        if pattern.fullmatch(problem):
            problem = words
    return f"yaml: {_where(error)}{problem}"


def _where(error: yaml.YAMLError) -> str:
    """The position in an error message. Go counts lines from zero, except in scanner errors, and omits line zero."""
    for mark in (getattr(error, "context_mark", None), getattr(error, "problem_mark", None)):
        if mark is not None and mark.line:
            return f"line {mark.line + isinstance(error, yaml.scanner.ScannerError)}: "
    return ""
