"""Reads the tables: text files that list, type by type, the fields of the built-in kinds.

A line at the margin opens a type: `PodSpec`, `LabelSelector atomic`, or `PodPhase = string` for a named scalar, list or
map. Indented lines are fields: name, type as Go writes it (`*` for a pointer), then flags:

    !            printed even when empty (Go has no omitempty)   ?           … but not required
    required     left out when empty, but clients have to set it
    omitzero     left out when it is the zero value              default=V   published; that of a list key is applied
    merge[=key]  strategic merge of the list, by key             retainKeys, replace: strategic merge's other words
    map=a,b      server-side apply: an associative list          set, atomic: likewise
    granular     server-side apply of a struct that is atomic elsewhere
    keepempty    an empty list is not the same as none in a request

Names are looked up in the same table, then in `core`, then in `meta`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from podfit.api.schema.types import ATOMIC, GRANULAR, MAP, SET, Field, ListOf, MapOf, Scalar, Struct, Type

_BUILT_IN = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "float64": "float64",
    "bytes": "[]uint8",
    "Quantity": "resource.Quantity",
    "Resource": "resource.Quantity",
    "IntOrString": "intstr.IntOrString",
    "Time": "v1.Time",
    "MicroTime": "v1.MicroTime",
    "Duration": "v1.Duration",
    "Raw": "runtime.RawExtension",
    "SchemaOrArray": "v1.JSONSchemaPropsOrArray",
    "SchemaOrBool": "v1.JSONSchemaPropsOrBool",
    "SchemaOrStrings": "v1.JSONSchemaPropsOrStringArray",
}
_SCALARS = {name: Scalar(name, go) for name, go in _BUILT_IN.items()} | {"UID": Scalar("string", "types.UID")}
_MAP = re.compile(r"map\[(\w+)\](.+)")


class Table:
    """One API group and version: its types by name, resolved on demand."""

    def __init__(self, name: str, version: str, library: Library) -> None:
        self.name = name
        self.version = version
        self._library = library
        self._types: dict[str, Type] = {}
        self._aliases: dict[str, str] = {}
        self._bodies: dict[str, list[str]] = {}
        self._atomic: set[str] = set()
        self._read(Path(__file__).with_name("tables").joinpath(f"{name}.txt").read_text())

    def _read(self, text: str) -> None:
        body: list[str] = []
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            if line[0] == " ":
                body.append(line.strip())
                continue
            head, _, underlying = line.partition(" = ")
            name, *flags = head.split()
            if underlying:
                self._aliases[name] = underlying.strip()
                continue
            body = self._bodies[name] = []
            if ATOMIC in flags:
                self._atomic.add(name)

    def names(self) -> Iterator[str]:
        return iter(self._bodies)

    def own(self, name: str) -> Type | None:
        """The type that this table itself declares."""
        found = self._types.get(name)
        if found is not None:
            return found
        if name in self._aliases:
            made = self._types[name] = _renamed(self.parse(self._aliases[name]), f"{self.version}.{name}")
            return made
        if name not in self._bodies:
            return None
        struct = Struct(name, f"{self.version}.{name}", atomic=name in self._atomic, table=self.name)
        self._types[name] = struct
        for line in self._bodies[name]:
            row = self._field(line)
            struct.fields[row.name] = row
        return struct

    def parse(self, text: str) -> Type:
        if text in _SCALARS:
            return _SCALARS[text]
        if text.startswith("[]"):
            item = self.parse(text[2:].lstrip("*"))
            return ListOf(item, "[]" + _go(item))
        matched = _MAP.fullmatch(text)
        if matched:
            key, value = self.parse(matched[1]), self.parse(matched[2])
            return MapOf(value, f"map[{_go(key)}]{_go(value)}")
        return self._library.find(self, text)

    def _field(self, line: str) -> Field:
        name, text, *flags = line.split()
        pointer = text.startswith("*")
        kind = self.parse(text.lstrip("*"))
        row = Field(name, kind, pointer)
        for flag in flags:
            _flag(row, flag)
        return row


def _value(kind: Type, text: str) -> Any:
    form = kind.form if isinstance(kind, Scalar) else ""
    return text == "true" if form == "bool" else int(text) if form in ("int32", "int64") else text


def _flag(row: Field, flag: str) -> None:
    word, _, value = flag.partition("=")
    if word == "!":
        row.omit_empty, row.required = False, True
    elif word in ("?", "required"):
        row.required = word == "required"
    elif word == "omitzero":
        row.omit_zero = True
    elif word == "keepempty":
        row.keep_empty = True
    elif word == "merge":
        row.merge, row.merge_key = True, value or None
    elif word == "retainKeys":
        row.retain_keys = True
    elif word == "replace":
        row.replace = True
    elif word == "default":
        row.default = _value(row.type, value)
    elif word == MAP:
        row.type = _related(row.type, MAP, tuple(value.split(",")))
    elif word == GRANULAR:
        row.granular = True
        if isinstance(row.type, Struct):
            row.type = replace(row.type, atomic=False, cache={})
    elif word in (SET, ATOMIC):
        row.type = _related(row.type, word, ())
    else:
        raise ValueError(f"unknown flag {flag} of field {row.name}")


def _related(kind: Type, relation: str, keys: tuple[str, ...]) -> Type:
    if isinstance(kind, ListOf):
        return ListOf(kind.item, kind.go, relation, keys)
    assert isinstance(kind, MapOf)
    return MapOf(kind.value, kind.go, relation)


def _go(kind: Type) -> str:
    return kind.go


def _renamed(kind: Type, go: str) -> Type:
    if isinstance(kind, Scalar):
        return Scalar(kind.form, go)
    if isinstance(kind, ListOf):
        return ListOf(kind.item, go, kind.relation, kind.keys)
    assert isinstance(kind, MapOf)
    return MapOf(kind.value, go, kind.relation)


class Library:
    """All tables, each read on first use."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}

    def table(self, name: str, version: str = "v1") -> Table:
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = Table(name, version, self)
        return found

    def find(self, near: Table, name: str) -> Type:
        for table in (near, self.table("core"), self.table("meta")):
            found = table.own(name)
            if found is not None:
                return found
        raise KeyError(f"no type {name} near table {near.name}")
