"""Functions that expressions may call: overloads by name, and the declarations of libraries."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from podfit.api.cel.types import Type, split_types, type_from
from podfit.api.cel.values import NoOverload, type_name

_SIGNATURE = re.compile(r"(?:(?P<receiver>[^.]+)\.)?\((?P<params>.*)\) (?P<result>.+)")
_RUNTIME = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "optional": "optional_type",
}


@dataclass(frozen=True, slots=True)
class Overload:
    id: str
    function: str
    params: tuple[Type, ...]
    """Including the receiver as the first, if there is one."""
    result: Type
    member: bool
    run: Callable[..., Any]
    free: tuple[str, ...]
    """Names of the type variables in its signature."""

    def accepts(self, values: list[Any]) -> bool:
        """Whether these values match, by their run-time types."""
        for param, value in zip(self.params, values, strict=True):
            if param.kind in ("dyn", "param"):
                continue
            wanted = param.name if param.kind in ("object", "opaque") else _RUNTIME.get(param.kind, param.kind)
            if wanted != type_name(value):
                return False
        return True


def _free(kind: Type) -> set[str]:
    found = {kind.name} if kind.kind == "param" else set()
    return found.union(*(_free(param) for param in kind.params))


class Library:
    """A collection of functions."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Overload]] = {}

    def add(self, function: str, overload: str, signature: str, run: Callable[..., Any]) -> None:
        """The signature is written as `(int, int) bool`, or `string.(int) string` for a method."""
        found = _SIGNATURE.fullmatch(signature)
        assert found is not None, signature
        receiver = found["receiver"]
        params = ([receiver] if receiver else []) + split_types(found["params"])
        types, result = tuple(type_from(param) for param in params), type_from(found["result"])
        free = tuple(sorted({name for kind in (*types, result) for name in _free(kind)}))
        made = Overload(overload, function, types, result, receiver is not None, run, free)
        self.functions.setdefault(function, []).append(made)

    def include(self, other: Library) -> None:
        for name, overloads in other.functions.items():
            self.functions.setdefault(name, []).extend(overloads)


def chosen(overloads: tuple[Overload, ...], values: list[Any]) -> Overload:
    for overload in overloads:
        if overload.accepts(values):
            return overload
    raise NoOverload
