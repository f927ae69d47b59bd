"""The message types that expressions of mutating policies construct: `Object`, `Object.spec`, … and `JSONPatch`.

The fields of an `Object` are not known when an expression is compiled: each may hold any value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podfit.api.cel.types import DYN, STRING, Type, list_of

MessageTypes = Callable[[str], Type | None]
"""The type of a name, or None for names that are not types."""
_ROOT = "Object"


class _AnyField(dict[str, Type]):
    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Type:
        return DYN

    def get(self, name: str, default: Any = None) -> Type:
        return DYN


APPLIED = Type("object", name=_ROOT, fields=_AnyField())
PATCH = Type("object", name="JSONPatch", fields={"op": STRING, "path": STRING, "from": STRING, "value": DYN})
PATCHES = list_of(PATCH)


def no_messages(name: str) -> Type | None:
    return None


def patch_messages(name: str) -> Type | None:
    if name == PATCH.name:
        return PATCH
    if name == _ROOT or name.startswith(f"{_ROOT}."):
        return Type("object", name=name, fields=APPLIED.fields)
    return None
