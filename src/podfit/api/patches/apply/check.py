"""Does an applied configuration fit its type? The complaints are those of Kubernetes' typed apply objects."""

from __future__ import annotations

import json
from typing import Any

from podfit.api.patches.apply.fieldset import path_text
from podfit.api.patches.apply.typed import element_of, field_type
from podfit.api.schema.types import MAP, SET, ListOf, Scalar, Struct, Type

_UNTYPED = ("Quantity", "Resource", "IntOrString", "Time", "MicroTime", "Duration", "Raw")


def complaints(value: Any, kind: Type, path: str = "") -> list[str]:
    """What is wrong, each with the path in front; a null fits everywhere."""
    if value is None or (isinstance(kind, Scalar) and kind.form == "Raw"):
        return []
    if isinstance(kind, Scalar):
        return _scalar(value, kind, path)
    if isinstance(kind, ListOf):
        return _list(value, kind, path)
    if not isinstance(value, dict):
        return [f"{path}: expected map, got {_shown(value)}"]
    found = []
    for name, item in value.items():
        below = field_type(kind, name)
        where = f"{path}.{name}"
        found += [f"{where}: field not declared in schema"] if below is None else complaints(item, below, where)
    return found


def _scalar(value: Any, kind: Scalar, path: str) -> list[str]:
    if isinstance(value, (dict, list)) or kind.form not in _UNTYPED:
        wanted, fits = _fits(value, kind.form)
        if not fits:
            return [f"{path}: expected {wanted}, got {_shown(value)}"]
    return []


def _fits(value: Any, form: str) -> tuple[str, bool]:
    if form in _UNTYPED:
        return "scalar", False
    if form == "bool":
        return "boolean", isinstance(value, bool)
    if form in ("int32", "int64", "float64"):
        return "numeric (int or float)", isinstance(value, (int, float)) and not isinstance(value, bool)
    return "string", isinstance(value, str)


def _list(value: Any, kind: ListOf, path: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{path}: expected list, got {_shown(value)}"]
    found: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        if kind.relation in (MAP, SET):
            problem = _key_problem(item, kind, index)
            if problem:
                found.append(f"{path}: {problem}")
                continue
            element = element_of(item, kind)
            where = path + path_text((element,))
            if element in seen:
                found.append(f"{path}: duplicate entries for key {path_text((element,))}")
            seen.add(element)
        found += complaints(item, kind.item, where)
    return found


def _key_problem(item: Any, kind: ListOf, index: int) -> str:
    if kind.relation == SET:
        return f"element {index}: set elements may not be null" if item is None else ""
    if not isinstance(item, dict):
        return f"element {index}: associative list with keys may not have non-map elements"
    for key in kind.keys:
        row = kind.item.fields.get(key) if isinstance(kind.item, Struct) else None
        if item.get(key) is None and (row is None or row.default is None):
            why = f'associative list with keys has an element that omits key field "{key}"'
            return f"element {index}: {why} (and doesn't have default value)"
    return ""


def _shown(value: Any) -> str:
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
