"""The types of an older dialect: those of the native API, with some fields replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from podfit.api.schema.types import Field, ListOf, MapOf, Scalar, Struct, Type


class StructDiff(NamedTuple):
    """The fields to remove from one struct, and those to add."""

    without: frozenset[str] = frozenset()
    fields: tuple[Field, ...] = ()


def edit(without: Iterable[str] = (), *fields: Field) -> StructDiff:
    return StructDiff(frozenset(without), fields)


AMOUNTS = MapOf(Scalar("Resource", "resource.Quantity"), "v1.ResourceList")
WORDS = MapOf(Scalar("string", "string"), "map[string]string")


def word(name: str, go: str = "string", required: bool = False) -> Field:
    return Field(name, Scalar("string", go), omit_empty=not required, required=required)


def varied(struct: Struct, edits: Mapping[str, StructDiff]) -> Struct:
    """A copy of the struct, and of all types it contains, with the edits applied. Edits are keyed by struct names."""
    return _Copies(edits).struct(struct)


class _Copies:
    def __init__(self, edits: Mapping[str, StructDiff]) -> None:
        self._edits = edits
        self._made: dict[int, Struct] = {}

    def struct(self, struct: Struct) -> Struct:
        made = self._made.get(id(struct))
        if made is None:
            made = self._made[id(struct)] = replace(struct, fields={}, cache={})
            change = self._edits.get(struct.name, StructDiff())
            kept = [row for row in struct if row.name not in change.without]
            made.fields.update({row.name: replace(row, type=self._type(row.type)) for row in kept})
            made.fields.update({row.name: row for row in change.fields})
        return made

    def _type(self, kind: Type) -> Type:
        if isinstance(kind, Struct):
            return self.struct(kind)
        if isinstance(kind, ListOf):
            return replace(kind, item=self._type(kind.item))
        if isinstance(kind, MapOf):
            return replace(kind, value=self._type(kind.value))
        return kind
