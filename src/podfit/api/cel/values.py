"""The values of CEL expressions that Python lacks, and equality of values.

Booleans, integers, doubles, strings, bytes, null and maps are Python's own. Lists are the types in `LISTS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
NANOS = 1_000_000_000
_EARLIEST, _LATEST = -62_135_596_800 * NANOS, 253_402_300_800 * NANOS - 1
_DEEPEST_JOIN = 200


class Failed(Exception):
    """An expression cannot be evaluated with these values."""


class Stopped(Exception):
    """An evaluation was cancelled from outside. Unlike an error, no operator absorbs it."""


class CostExceeded(Stopped):
    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class NoOverload(Failed):
    """A function was called with argument types that it does not support."""

    def __init__(self) -> None:
        super().__init__("no such overload")


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Timestamp:
    nanos: int

    @classmethod
    def checked(cls, nanos: int) -> Timestamp:
        if not _EARLIEST <= nanos <= _LATEST:
            raise Failed("timestamp overflow")
        return cls(nanos)


@dataclass(frozen=True, slots=True)
class Duration:
    nanos: int

    @classmethod
    def checked(cls, nanos: int) -> Duration:
        if not INT_MIN <= nanos <= INT_MAX:
            raise Failed("duration overflow")
        return cls(nanos)


@dataclass(frozen=True, slots=True)
class TypeValue:
    name: str


class Maybe:
    """A value of an optional type."""

    __slots__ = ("present", "value")

    def __init__(self, value: Any = None, present: bool = True) -> None:
        self.value, self.present = value, present

    def get(self) -> Any:
        if not self.present:
            raise Failed("optional.none() dereference")
        return self.value


NONE = Maybe(present=False)


class Opaque:
    """A value of an opaque type, which only its own functions can read."""

    __slots__ = ()
    type_name = ""

    def same(self, other: Any) -> bool:
        return self is other


class Joined:
    """A concatenation of two lists. It is as cheap as its cost suggests: nothing is copied."""

    __slots__ = ("_depth", "_left", "_right", "_size")

    def __init__(self, left: Any, right: Any) -> None:
        self._depth = 1 + max(getattr(left, "_depth", 0), getattr(right, "_depth", 0))
        if self._depth > _DEEPEST_JOIN:
            left, self._depth = [*left], 1 + getattr(right, "_depth", 0)
        self._left, self._right = left, right
        self._size = len(left) + len(right)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: int) -> Any:
        part: Any = self
        while type(part) is Joined:
            first = len(part._left)
            part, at = (part._left, at) if at < first else (part._right, at - first)
        return part[at]

    def __iter__(self) -> Iterator[Any]:
        parts: list[Any] = [self]
        while parts:
            part = parts.pop()
            if type(part) is Joined:
                parts += (part._right, part._left)
            else:
                yield from part


class SetList(list[Any]):
    """A list in which order does not matter (`x-kubernetes-list-type: set`)."""

    __slots__ = ()


class MapList(list[Any]):
    """A list whose items are identified by some of their fields (`x-kubernetes-list-type: map`)."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> Any:
        return tuple(item.get(key) for key in self.keys) if isinstance(item, dict) else None


LISTS = (list, Joined, tuple, range)
_SIMPLE = frozenset((str, bool, int, float, bytes, type(None), Uint, Timestamp, Duration, TypeValue))
_NUMBERS = frozenset((int, float, Uint))
_NAMES = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Maybe: "optional_type",
}


def type_name(value: Any) -> str:
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, LISTS):
        return "list"
    return value.type_name if isinstance(value, Opaque) else "map"


def size_of(value: Any) -> int:
    """The number of characters, bytes, items or entries; 1 for anything else. Costs are computed from it."""
    kind = type(value)
    if kind is str or kind is list or kind is dict or kind is bytes or kind is Joined:
        return len(value)
    if kind is Maybe:
        return size_of(value.value) if value.present else 1
    return len(value) if hasattr(kind, "__len__") else 1


def same(left: Any, right: Any) -> bool:
    """Compares nested values in plain loops: values may be nested deeply, and generators would recurse in C."""
    kind, other = type(left), type(right)
    if kind is other and kind in _SIMPLE:
        return bool(left == right)
    if kind in _NUMBERS and other in _NUMBERS:
        return bool(left == right)
    if kind is dict and other is dict:
        return _same_maps(left, right)
    if isinstance(left, LISTS) and isinstance(right, LISTS):
        return _same_lists(left, right)
    if kind is Maybe and other is Maybe:
        return left.present == right.present and (not left.present or same(left.value, right.value))
    return isinstance(left, Opaque) and left.same(right)


def _same_maps(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():  # noqa: SIM110
        if key not in right or not same(value, right[key]):
            return False
    return True


def _same_lists(left: Any, right: Any) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, SetList):
        return _subset(left, right) and _subset(right, left)
    if isinstance(left, MapList):
        found = {repr(left.key_of(item)): item for item in right}
        for item in left:
            key = repr(left.key_of(item))
            if key not in found or not same(item, found[key]):
                return False
        return True
    for one, other in zip(left, right, strict=True):  # noqa: SIM110
        if not same(one, other):
            return False
    return True


def _subset(part: Any, whole: Any) -> bool:
    """Whether all items of one set are in the other. Scalars are looked up in a hash table, others compared one by
    one."""
    plain = {item for item in whole if type(item) in _SIMPLE}
    rest = [item for item in whole if type(item) not in _SIMPLE]
    for item in part:
        if type(item) in _SIMPLE:
            if item not in plain:
                return False
        elif not holds(rest, item):
            return False
    return True


def holds(items: Any, wanted: Any) -> bool:
    for item in items:  # noqa: SIM110
        if same(item, wanted):
            return True
    return False


def joined(left: Any, right: Any) -> Any:
    """Concatenates two lists. Sets and keyed lists keep their semantics, as in Kubernetes."""
    if isinstance(left, SetList):
        known = {item for item in left if type(item) in _SIMPLE}
        more = [item for item in right if item not in known] if len(known) == len(left) else [*right]
        return SetList([*left, *more])
    if isinstance(left, MapList):
        merged = {repr(left.key_of(item)): item for item in left}
        for item in right:
            merged[repr(left.key_of(item))] = item
        return MapList(list(merged.values()), left.keys)
    return Joined(left, right)


def compare(left: Any, right: Any) -> int:
    """Less than, equal or greater: -1, 0, 1."""
    kind, other = type(left), type(right)
    if kind is other and kind in (Timestamp, Duration):
        left, right = left.nanos, right.nanos
    elif not (kind in _NUMBERS and other in _NUMBERS) and not (kind is other and kind in (str, bytes, bool)):
        raise NoOverload
    if left != left or right != right:
        raise Failed("NaN values cannot be ordered")
    return int(left > right) - int(left < right)
