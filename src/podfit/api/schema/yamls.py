"""YAML bodies, read the way Kubernetes does: YAML 1.1 scalars become JSON values, anchors work, tags do not.

Errors are worded like Go's YAML parser as far as libyaml's shared ancestry allows.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from podfit.api.schema.gojson import may_hold_duplicates

_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """The text is no YAML; the message is Go's as far as known."""


class _Loader(_FAST):  # type: ignore[misc]
    """Dates stay strings: JSON has none. Keys become strings, and keys given twice are noted."""

    twice: list[tuple[int, str]]

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "expected a mapping node", node.start_mark)
        self.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = _key(self.construct_object(key_node, deep=True))
            if key in out:
                self.twice.append((key_node.start_mark.line + 1, key))
            out[key] = self.construct_object(value_node, deep=True)
        return out


_Loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node, True))
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else "null" if value is None else str(value)


def parse_yaml(raw: bytes) -> tuple[Any, list[str]]:
    """The first document as JSON, and complaints about keys given twice. JSON, being YAML, is read the quick way."""
    if raw[:1] == b"{":
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        if value is not None and not may_hold_duplicates(raw, value):
            return value, []
    loader = _Loader(raw.decode("utf-8", "replace"))
    loader.twice = []
    try:
        value = loader.get_data()
    except yaml.YAMLError as error:
        raise YamlError(_worded(error)) from None
    except RecursionError:
        raise YamlError("yaml: exceeded max depth of 10000") from None
    finally:
        loader.dispose()
    lines = [f'  line {line}: key "{key}" already set in map' for line, key in loader.twice]
    return value, ["yaml: unmarshal errors:\n" + "\n".join(lines)] if lines else []


_PLAIN_WORDS = (
    (re.compile(r"expected ',' or '\]', but got .*"), "did not find expected ',' or ']'"),
    (re.compile(r"expected ',' or '\}', but got .*"), "did not find expected ',' or '}'"),
    (re.compile(r"expected <block end>, but found .*"), "did not find expected key"),
    (re.compile(r"found character .* that cannot start any token"), "found character that cannot start any token"),
)
"""Where Python's own parser words it differently from libyaml, whose words Go's parser shares."""


def _worded(error: yaml.YAMLError) -> str:
    problem = str(getattr(error, "problem", None) or error)
    for pattern, words in _PLAIN_WORDS:
        if pattern.fullmatch(problem):
            problem = words
    return f"yaml: {_where(error)}{problem}"


def _where(error: yaml.YAMLError) -> str:
    """Go counts lines from zero here, except in errors of the scanner, and leaves line zero out."""
    for mark in (getattr(error, "context_mark", None), getattr(error, "problem_mark", None)):
        if mark is not None and mark.line:
            return f"line {mark.line + isinstance(error, yaml.scanner.ScannerError)}: "
    return ""
