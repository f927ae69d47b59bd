"""The syntax tree of expressions, and syntax errors.

Macros are expanded while parsing, as in cel-go, because costs are estimated from their expansion. A comprehension also
keeps its form (`all`, `map`, …) and parts, from which it is evaluated directly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ACCUMULATOR = "@result"
INSTANTIATION = "program instantiation failed"
"""The stage of an error in an expression that compiles, but of which no program can be made."""


class BadExpression(ValueError):
    """An expression cannot be compiled; the text says where and why, as shown to clients."""

    def __init__(self, why: str, stage: str = "compilation failed") -> None:
        super().__init__(f"{stage}: {why}")


class Problems:
    """All errors of one expression, sorted by position."""

    _MOST = 100

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, at: int, message: str) -> None:
        self._found.append((at, message))

    def __str__(self) -> str:
        found = sorted(self._found, key=lambda problem: problem[0])
        shown = [self._rendered(at, message) for at, message in found[: self._MOST]]
        if len(found) > self._MOST:
            shown.append(f"{len(found) - self._MOST} more errors were truncated")
        return "\n".join(shown)

    def _rendered(self, at: int, message: str) -> str:
        if at < 0:
            return f"ERROR: <input>:-1:0: {message}"
        if not self._text:
            return f"ERROR: <input>:1:0: {message}"
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1)
        source = self._text.split("\n")[line - 1].replace("\t", " ")
        # Characters outside ASCII are assumed to be wide.
        dots = "".join(["." if letter.isascii() else "．" for letter in source[:column]])
        mark = "^" if source[column : column + 1].isascii() else "＾"
        return f"ERROR: <input>:{line}:{column + 1}: {message}\n | {source}\n | {dots}{mark}"


@dataclass(eq=False, slots=True)
class Node:
    at: int
    """The position in the text; negative if there is none."""
    type: Any = field(default=None, init=False)
    overloads: tuple[Any, ...] = field(default=(), init=False)


@dataclass(eq=False, slots=True)
class Literal(Node):
    value: Any


@dataclass(eq=False, slots=True)
class Ident(Node):
    name: str


@dataclass(eq=False, slots=True)
class Select(Node):
    operand: Node
    name: str
    test: bool = False
    variable: str = ""
    """The dotted name, for a selection that turned out to be a variable or a type."""


@dataclass(eq=False, slots=True)
class Call(Node):
    function: str
    args: list[Node]
    target: Node | None = None


@dataclass(eq=False, slots=True)
class OptMap(Call):
    """`optMap` or `optFlatMap`: the conditional it expands to, and the parts from which it is evaluated."""

    source: Node = field(kw_only=True)
    binding: Fold = field(kw_only=True)
    flat: bool = field(kw_only=True)


@dataclass(eq=False, slots=True)
class ListNode(Node):
    items: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class MapNode(Node):
    entries: list[tuple[Node, Node, bool]]


@dataclass(eq=False, slots=True)
class Message(Node):
    name: str
    entries: list[tuple[str, Node, bool, int]] = field(default_factory=list)
    """Fields: name, value, whether it is optional, and position."""


@dataclass(eq=False, slots=True)
class Fold(Node):
    """A comprehension."""

    form: str
    range: Node
    variables: tuple[str, ...]
    accumulator: str
    init: Node
    condition: Node
    step: Node
    result: Node
    test: Node | None = None
    """The predicate of a quantifier or filter."""
    value: Node | None = None
    """The result of a transformation for an element; for an entry, of key and value."""


def qualified_name(node: Node | None) -> str:
    """`a.b.c` for a chain of selections from a name, or nothing."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test:
        names.append(node.name)
        node = node.operand
    if not isinstance(node, Ident):
        return ""
    return ".".join([node.name, *reversed(names)])
