"""Errors of operations on values that the checker could not exclude, in the words of Kubernetes' CEL."""

from __future__ import annotations

from typing import Any

from podfit.api.cel.values import LISTS, Duration, Failed, NoOverload, Timestamp, Uint

_GO_NAMES = {
    str: "String",
    bool: "Bool",
    int: "Int",
    float: "Double",
    bytes: "Bytes",
    Uint: "Uint",
    Timestamp: "Timestamp",
    Duration: "Duration",
    type(None): "Null",
}
_INDEX_TYPES = {str: "string", bool: "bool", bytes: "bytes", type(None): "null_type"}


def no_such_key(key: Any) -> Failed:
    return Failed(f"no such key: {str(key).lower() if isinstance(key, bool) else key}")


def not_iterable(value: Any) -> Failed:
    name = _GO_NAMES.get(type(value))
    return Failed(f"got 'types.{name}', expected iterable type") if name else NoOverload()


def misused(function: str, values: list[Any]) -> Any:
    """The result of a call without a matching overload: the item at an index of another type, or an error."""
    if function == "size":
        raise Failed("no such overload: size")
    if function != "_[_]":
        raise NoOverload
    value, key = values
    if isinstance(value, LISTS):
        return _item(value, key)
    raise no_such_key(key) if type(value) in _GO_NAMES else NoOverload()


def _item(items: Any, key: Any) -> Any:
    if type(key) is float:
        if not key.is_integer():
            raise Failed(f"unsupported index value {key} in list")
        if not 0 <= key < len(items):
            raise Failed(f"index out of bounds: {int(key)}")
        return items[int(key)]
    name = _INDEX_TYPES.get(type(key))
    raise Failed(f"unsupported index type '{name}' in list") if name else NoOverload()
