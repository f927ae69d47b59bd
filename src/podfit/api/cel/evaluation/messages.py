"""Values of message types: the result of `Object.spec{replicas: 3}`, and its conversion to JSON."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from podfit.api.cel.cost.sizes import STRUCT_COST
from podfit.api.cel.library.times import shown_duration, shown_timestamp
from podfit.api.cel.parsing.syntax import Message, Node
from podfit.api.cel.values import LISTS, Duration, Maybe, NoOverload, Opaque, Timestamp, same

Run = Callable[[list[Any]], Any]


class Built(Opaque):
    __slots__ = ("fields", "type_name")

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        self.type_name, self.fields = type_name, fields

    def same(self, other: Any) -> bool:
        if not isinstance(other, Built) or other.type_name != self.type_name:
            return False
        return same(self.fields, other.fields)


def message_run(node: Message, compiled: Callable[[Node], Run]) -> Run:
    entries = [(name, compiled(value), optional) for name, value, optional, _ in node.entries]
    name_of_type = node.name

    def run(frame: list[Any]) -> Built:
        made: dict[str, Any] = {}
        for name, value, optional in entries:
            found = value(frame)
            if optional:
                if not found.present:
                    continue
                found = found.value
            made[name] = found
        frame[0] += STRUCT_COST
        return Built(name_of_type, made)

    return run


def misnamed(value: Any, path: str) -> list[str]:
    """Objects nested in an object whose type differs from that of their field."""
    found: list[str] = []
    if isinstance(value, Built):
        if value.type_name != path:
            expected = f'expected "{path}", which matches field name path from root Object type'
            found.append(f'unexpected type name "{value.type_name}", {expected}')
        for name, inner in value.fields.items():
            found += misnamed(inner, f"{path}.{name}")
    elif isinstance(value, LISTS):
        for inner in value:
            found += misnamed(inner, path)
    elif isinstance(value, dict):
        for inner in value.values():
            found += misnamed(inner, path)
    return found


def to_json(value: Any) -> Any:
    """Converts a value to JSON. Raises NoOverload for values that JSON cannot represent."""
    if isinstance(value, Built):
        return {name: to_json(inner) for name, inner in value.fields.items()}
    if isinstance(value, dict):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, LISTS):
        return [to_json(inner) for inner in value]
    if isinstance(value, bool | str | float) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return shown_timestamp(value)
    if isinstance(value, Duration):
        return shown_duration(value)
    if isinstance(value, Maybe) and value.present:
        return to_json(value.value)
    raise NoOverload
