"""Ranges of sizes and costs: unsigned 64-bit numbers with saturating arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from podfit.api.cel.parsing.syntax import Node
from podfit.api.cel.types import Type

MOST = (1 << 64) - 1
LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40
TRAVERSAL, PATTERN = 0.1, 0.25
"""The cost of one character: of a string that is read once, and of a regular expression per input character."""


def scaled(count: int, factor: float) -> int:
    """A number multiplied by a factor, rounded up; saturates at 64 bits."""
    exact = float(count) * factor
    return MOST if exact >= 2.0**64 else min(MOST, math.ceil(exact))


@dataclass(frozen=True, slots=True)
class Range:
    low: int
    high: int

    def __add__(self, other: Range) -> Range:
        return Range(min(MOST, self.low + other.low), min(MOST, self.high + other.high))

    def __mul__(self, other: Range) -> Range:
        return Range(min(MOST, self.low * other.low), min(MOST, self.high * other.high))

    def scaled(self, factor: float) -> Range:
        return Range(scaled(self.low, factor), scaled(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


FREE, ONE, UNKNOWN = Range(0, 0), Range(1, 1), Range(0, MOST)
Path = tuple[str, ...]
SizeOf = Callable[[Path], Range | None]
"""The size of the value at a path below a declared variable, if there is such a value."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The receiver or an argument of a call."""

    path: Path
    type: Type
    computed: Range | None
    size_of: SizeOf
    node: Node | None

    @property
    def size(self) -> Range:
        return self.computed or self.size_of(self.path) or UNKNOWN

    @property
    def computed_or_unknown(self) -> Range:
        return self.computed or UNKNOWN

    @property
    def items(self) -> Operand | None:
        """The elements of a list."""
        if not self.type.params:
            return None
        path = (*self.path, "@items") if self.path else ()
        return Operand(path, self.type.params[0], None, self.size_of, None)
