"""Validates literals in well-typed expressions: patterns, times, formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from podfit.api.cel.library.strings import CLAUSES, STRING_CLAUSE, format_clauses
from podfit.api.cel.library.times import duration_from, timestamp_from
from podfit.api.cel.parsing.syntax import Call, Fold, ListNode, Literal, MapNode, Message, Node, Problems, Select
from podfit.api.cel.types import Type
from podfit.api.cel.values import Failed
from podfit.api.text.patterns import BadPattern, compile_pattern

_SHOWN = (
    *("bool", "int", "uint", "double", "string", "bytes", "null", "list", "map", "timestamp", "duration", "type"),
)
_READERS: dict[str, Callable[[str], object]] = {"duration": duration_from, "timestamp": timestamp_from}


def parts_of(node: Node) -> Iterator[Node]:
    """The direct children of a node."""
    if isinstance(node, Select):
        if not node.variable:
            yield node.operand
    elif isinstance(node, Call):
        if node.target is not None:
            yield node.target
        yield from node.args
    elif isinstance(node, ListNode):
        yield from node.items
    elif isinstance(node, MapNode):
        for key, value, _ in node.entries:
            yield key
            yield value
    elif isinstance(node, Message):
        for _, value, _, _ in node.entries:
            yield value
    elif isinstance(node, Fold):
        yield from (node.range, node.init, node.condition, node.step, node.result)


def literal_problems(root: Node, problems: Problems) -> None:
    seen: set[int] = set()
    left = [(root, False)]
    while left:
        node, formatted = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call):
            _call(node, problems)
            formatted = formatted or node.function == "format"
        elif isinstance(node, (ListNode, MapNode)) and not formatted:
            _members(node, problems)
        left += ((part, formatted) for part in parts_of(node))


def _members(node: ListNode | MapNode, problems: Problems) -> None:
    """Reports a literal whose elements have different types."""
    if isinstance(node, ListNode):
        columns = [[(item, at in node.optional) for at, item in enumerate(node.items)]]
    else:
        columns = [[(key, False) for key, _, _ in node.entries]]
        columns.append([(value, optional) for _, value, optional in node.entries])
    for column in columns:
        kinds = [item.type.params[0] if optional and item.type.params else item.type for item, optional in column]
        for (item, _), kind in zip(column, kinds, strict=True):
            if not _equivalent(kinds[0], kind):
                problems.add(item.at, f"expected type '{kinds[0]}' but found '{kind}'")
                break


def _equivalent(one: Type, other: Type) -> bool:
    if one.kind != other.kind or one.name != other.name or len(one.params) != len(other.params):
        return False
    return all(_equivalent(left, right) for left, right in zip(one.params, other.params, strict=True))


def _call(node: Call, problems: Problems) -> None:
    last = node.args[-1] if node.args else None
    text = last.value if isinstance(last, Literal) and isinstance(last.value, str) else None
    if text is not None and node.function == "matches":
        try:
            compile_pattern(text)
        except BadPattern:
            problems.add(last.at, "invalid matches argument")  # type: ignore[union-attr]
    elif text is not None and node.function in _READERS and node.target is None:
        try:
            _READERS[node.function](text)
        except Failed:
            problems.add(last.at, f"invalid {node.function} argument")  # type: ignore[union-attr]
    elif node.function == "format" and isinstance(node.target, Literal) and isinstance(last, ListNode):
        _format(node, str(node.target.value), last, problems)


def _format(node: Call, text: str, values: ListNode, problems: Problems) -> None:
    try:
        clauses = format_clauses(text)
    except Failed as error:
        problems.add(node.at, str(error))
        return
    for at, (letter, _) in enumerate(clauses):
        if at >= len(values.items):
            problems.add(node.at, f"index {at} out of range")
            return
        item = values.items[at]
        allowed, why = CLAUSES.get(letter, ((), ""))
        if letter == "s":
            allowed, why = _SHOWN, STRING_CLAUSE
        if item.type.kind not in (*allowed, "dyn"):
            problems.add(item.at, f"error during formatting: {why}, was given {item.type}")
            return
    if len(values.items) > len(clauses):
        counts = f"(expected {len(clauses)}, got {len(values.items)})"
        problems.add(node.at, f"too many arguments supplied to string.format {counts}")
