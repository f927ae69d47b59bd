"""The types of API objects: structs of fields, lists, maps and scalars.

They contain what typed decoding, re-encoding, strategic merge and server-side apply need, and nothing about defaults or
validation. Tables are converted to these types in `notation`; a CustomResourceDefinition in `structural`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ATOMIC, GRANULAR, SET, MAP = "atomic", "granular", "set", "map"


@dataclass(slots=True, eq=False)
class Scalar:
    """`form` is one of the keys of `scalars.READERS` or `unions.READERS`."""

    form: str
    go: str
    """The Go type as error messages print it."""


@dataclass(slots=True, eq=False)
class ListOf:
    item: Type
    go: str
    relation: str = ATOMIC
    """How server-side apply merges it: atomic, set, or map (then `keys` identify an element)."""
    keys: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class MapOf:
    value: Type
    go: str
    relation: str = GRANULAR


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: Type
    pointer: bool = False
    omit_empty: bool = True
    """Whether Go omits the field if its value is empty (a struct that is not a pointer is never omitted)."""
    omit_zero: bool = False
    keep_empty: bool = False
    """Whether an empty value is kept in a decoded request although Go omits it."""
    required: bool = False
    merge: bool = False
    """A strategic merge patch merges this list element by element."""
    merge_key: str | None = None
    retain_keys: bool = False
    replace: bool = False
    """A strategic merge patch replaces this map instead of merging it."""
    default: Any = None
    """The default that is published; a list key that an element omits has it."""
    granular: bool = False
    """Whether server-side apply merges it field by field although its type is atomic elsewhere, or explicitly."""
    nullable: bool = False
    """An explicit null is kept (custom resources only)."""
    doc: str = ""


@dataclass(slots=True, eq=False)
class Struct:
    name: str
    go: str
    fields: dict[str, Field] = field(default_factory=dict)
    atomic: bool = False
    preserve_unknown: bool = False
    """Unknown fields are preserved (custom resources only)."""
    table: str = ""
    doc: str = ""
    cache: dict[str, Any] = field(default_factory=dict, repr=False)
    """Compiled walkers and decoders, by purpose; filled by the modules that use them."""

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields.values())


Type = Scalar | ListOf | MapOf | Struct

RAW = Scalar("Raw", "runtime.RawExtension")
