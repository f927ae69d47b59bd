"""Checks an applied configuration against its type, with the errors of Kubernetes' typed apply objects."""

from __future__ import annotations

import json
from typing import Any

from podfit.api.patches.apply.fieldset import path_text
from podfit.api.patches.apply.typed import element_of, field_type, key_default
from podfit.api.schema.types import MAP, SET, ListOf, Scalar, Type
from podfit.api.schema.zeros import UNIONS
from podfit.api.status import go_quote
from podfit.api.text.goprint import go_print, go_type

_FREE = ("Raw", *UNIONS)
_UNTYPED = ("Quantity", "Resource", "IntOrString", "Time", "MicroTime", "Duration", "Raw", *UNIONS)


def complaints(value: Any, kind: Type, path: str = "") -> list[str]:
    """All errors, each prefixed by its path; null is allowed everywhere."""
    if value is None or (isinstance(kind, Scalar) and kind.form in _FREE):
        return []
    if isinstance(kind, Scalar):
        return _scalar(value, kind, path)
    if isinstance(kind, ListOf):
        return _list(value, kind, path)
    if not isinstance(value, dict):
        return [f"{path}: expected map, got {_printed(value)}"]
    found = []
    for name, item in value.items():
        below = field_type(kind, name)
        where = f"{path}.{name}"
        found += [f"{where}: field not declared in schema"] if below is None else complaints(item, below, where)
    return found


def _scalar(value: Any, kind: Scalar, path: str) -> list[str]:
    if kind.form in _UNTYPED:
        return [f"{path}: expected any scalar, got {_printed(value)}"] if isinstance(value, (dict, list)) else []
    if kind.form == "bool":
        return [] if isinstance(value, bool) else [f"{path}: expected boolean, got {_printed(value)}"]
    if kind.form in ("int32", "int64", "float64"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return [] if number else [f"{path}: expected numeric (int or float), got {go_type(value)}"]
    return [] if isinstance(value, str) else [f"{path}: expected string, got {_printable(value)}"]


def _list(value: Any, kind: ListOf, path: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{path}: expected list, got {_printed(value)}"]
    found: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        if kind.relation in (MAP, SET):
            problem = _key_problem(item, kind)
            if problem:
                return [*found, f"{path}: element {index}: {problem}"]
            element = element_of(item, kind)
            where = path + path_text((element,))
            if element in seen:
                found.append(f"{path}: duplicate entries for key {path_text((element,))}")
            seen.add(element)
        found += complaints(item, kind.item, where)
    return found


def _key_problem(item: Any, kind: ListOf) -> str:
    if kind.relation == SET:
        return _set_problem(item)
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if any(key in item or key_default(kind, key) is not None for key in kind.keys):
        return ""
    why = f"associative list with keys has an element that omits all key fields [{' '.join(map(go_quote, kind.keys))}]"
    return f"{why} (and doesn't have default values for any key fields)"


def _set_problem(item: Any) -> str:
    if isinstance(item, dict):
        return "associative list without keys has an element that's a map type"
    if isinstance(item, list):
        return "not supported: associative list with lists as elements"
    return "associative list without keys has an element that's an explicit null" if item is None else ""


def _printed(value: Any) -> str:
    """Go's %v of a value that was parsed for an apply."""
    return "&{" + go_print(value) + "}"


def _printable(value: Any) -> str:
    return "&value.valueUnstructured{Value:" + _go_syntax(value) + "}"


def _go_syntax(value: Any) -> str:
    """Go's %#v of a JSON value."""
    if isinstance(value, dict):
        return (
            "map[string]interface {}{"
            + ", ".join(f"{json.dumps(k)}:{_go_syntax(value[k])}" for k in sorted(value))
            + "}"
        )
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
    return "interface {}(nil)" if value is None else json.dumps(value, ensure_ascii=False)
