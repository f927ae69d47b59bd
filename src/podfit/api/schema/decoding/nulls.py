"""Empty lists become null if Go always prints the field.

Kubernetes stores built-in kinds as protobuf, which cannot distinguish an empty list from none. Fields without
`omitempty` therefore come back as null, whatever the client sent. Fields with it are omitted either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podfit.api.schema.types import ListOf, MapOf, Struct, Type

_Walk = Callable[[Any], None]


def empty_to_null(obj: dict[str, Any], struct: Struct) -> None:
    """Replaces empty lists by null, in place."""
    walk = _walker(struct, ())
    if walk is not None:
        walk(obj)


def _walker(kind: Type, above: tuple[str, ...]) -> _Walk | None:
    """The function that replaces empty lists in values of a type; None if the type contains no such field."""
    if isinstance(kind, ListOf):
        return _each(_walker(kind.item, above))
    if isinstance(kind, MapOf):
        return _each(_walker(kind.value, above))
    if not isinstance(kind, Struct) or kind.name in above:
        return None
    if "nulls" not in kind.cache:
        kind.cache["nulls"] = _of_struct(kind, (*above, kind.name))
    found: _Walk | None = kind.cache["nulls"]
    return found


def _each(walk: _Walk | None) -> _Walk | None:
    if walk is None:
        return None

    def walk_each(value: Any) -> None:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(item)

    return walk_each


def _of_struct(struct: Struct, above: tuple[str, ...]) -> _Walk | None:
    printed = [row.name for row in struct if isinstance(row.type, (ListOf, MapOf)) and not row.omit_empty]
    deeper = [(row.name, walk) for row in struct if (walk := _walker(row.type, above)) is not None]
    if not printed and not deeper:
        return None

    def walk_struct(value: Any) -> None:
        if not isinstance(value, dict):
            return
        for name, walk in deeper:
            if (inner := value.get(name)) is not None:
                walk(inner)
        for name in printed:
            if not value.get(name, True) and value[name] is not None:
                value[name] = None

    return walk_struct
