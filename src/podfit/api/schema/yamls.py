"""YAML bodies, read the way Kubernetes does: YAML 1.1 scalars become JSON values, anchors work, tags do not.

Errors are worded like Go's YAML parser as far as libyaml's shared ancestry allows.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

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
    """The first document as JSON, and complaints about keys given twice."""
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


_SCANNER_WORDS = (
    (re.compile(r"expected ',' or '\]', but got .*"), "did not find expected ',' or ']'"),
    (re.compile(r"expected ',' or '\}', but got .*"), "did not find expected ',' or '}'"),
    (re.compile(r"expected <block end>, but found .*"), "did not find expected key"),
    (re.compile(r"found character .* that cannot start any token"), "found character that cannot start any token"),
)


def _worded(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error)
    context = getattr(error, "context_mark", None)
    for pattern, words in _SCANNER_WORDS:
        if pattern.fullmatch(problem):
            problem = words
    at = context if context is not None and "expected" in problem else mark
    return f"yaml: line {at.line + 1}: {problem}" if at is not None else f"yaml: {problem}"
